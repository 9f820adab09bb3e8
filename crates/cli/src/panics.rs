//! What a bug may take down.
//!
//! A panic ends the process at once, on whichever thread it happens: half-changed state must not go on, and the log
//! on disk is good for a restart. The exception is a command of a tool: its thread only looks or asks, the control
//! server tells the tool of the bug, and the daemon goes on, so that a wrong report never takes a mount away. Should
//! such a command have panicked inside the engine, the engine's lock is poisoned, and the next thread that needs it
//! ends the process after all. See `docs/decisions/0008-what-a-panic-ends.md`.

use std::io::Write;

/// From now on panics end the process, but for those in commands of tools. For daemons, before they start threads.
pub(crate) fn end_the_process() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        if wayfs_control::is_in_command() {
            return;
        }
        // Nothing can be done about a closed standard error here.
        let _ =
            writeln!(std::io::stderr(), "wayfs ends because of this bug; what was durable is there after a restart");
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Names what the child process of a test is to do.
    const VARIABLE: &str = "WAYFS_TEST_PANIC";

    /// Runs this very test in a process of its own, which panics there.
    fn child(what: &str) -> std::process::Output {
        let program = std::env::current_exe().unwrap();
        let name = "panics::tests::a_panic_ends_the_process_and_one_in_a_command_does_not";
        Command::new(program).args([name, "--exact", "--nocapture"]).env(VARIABLE, what).output().unwrap()
    }

    #[test]
    fn a_panic_ends_the_process_and_one_in_a_command_does_not() {
        use std::os::unix::process::ExitStatusExt;
        match std::env::var(VARIABLE).as_deref() {
            Ok("thread") => {
                super::end_the_process();
                // Joined, an unwinding thread would leave this test alive.
                let _ = std::thread::spawn(|| panic!("a bug")).join();
                println!("went on");
            }
            Ok("command") => {
                super::end_the_process();
                assert!(wayfs_control::catch_in_command(|| panic!("a bug in a report")).is_err());
                println!("went on");
            }
            _ => {
                let ended = child("thread");
                assert_eq!(ended.status.signal(), Some(rustix::process::Signal::ABORT.as_raw()));
                assert!(!String::from_utf8_lossy(&ended.stdout).contains("went on"));
                let alive = child("command");
                assert!(alive.status.success() && String::from_utf8_lossy(&alive.stdout).contains("went on"));
            }
        }
    }
}
