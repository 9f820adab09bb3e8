//! What is installed beside the program: the helper of mount(8), service units, manual pages, completions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod machine;

use machine::{Machine, code, err, is_mounted, out};
use std::path::{Path, PathBuf};
use std::process::Command;

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// As mount(8) calls it for a line of fstab.
#[test]
fn the_helper_of_mount_mounts_by_ticket_and_by_name() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: no /dev/fuse here");
        return;
    }
    let machine = Machine::new();
    assert_eq!(code(&machine.serve(&["--daemon"])), 0);
    assert_eq!(code(&machine.run(&["volume", "create", "work"])), 0);
    assert_eq!(code(&machine.run(&["volume", "ticket", "work", "--out", &machine.text("ticket")])), 0);
    let mnt = machine.text("mnt");
    std::fs::create_dir(&mnt).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_wayfs")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let help = |source: &str, more: &[&str]| {
        let cache = format!("_netdev,nofail,nomdns,cache={}", machine.text("cache"));
        // The environment of the machine, but another program.
        let set = machine.command(&[]);
        let mut command = Command::new("sh");
        for (name, value) in set.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let script = packaging("mount.wayfs");
        command.arg(script).args([source, &mnt]).args(more).args(["-o", &cache]).env("PATH", &path).output().unwrap()
    };
    let first = help(&machine.text("ticket"), &["-n"]);
    assert!(code(&first) == 0 && is_mounted(&mnt), "{}{}", err(&first), machine.logs());
    assert_eq!(code(&machine.run(&["umount", "--flush", &mnt])), 0);
    let again = help("work", &["-r"]);
    assert!(code(&again) == 0 && is_mounted(&mnt), "{}{}", err(&again), machine.logs());
    assert!(std::fs::write(machine.path("mnt/x"), "x").is_err(), "-r is read-only");
    assert_eq!(code(&machine.run(&["umount", &mnt])), 0);
    assert_eq!(code(&help("nonesuch", &[])), 4);
    assert!(code(&help("work", &["-f"])) == 0 && !is_mounted(&mnt), "-f only pretends");
}

#[test]
fn the_units_are_understood_by_the_service_manager() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for unit in ["wayfs-server.service", "wayfs-mount@.service"] {
        let text = std::fs::read_to_string(packaging("systemd").join(unit)).unwrap();
        // The program and its manual pages need not be installed to check the rest.
        let text = text.replace("/usr/bin/wayfs", env!("CARGO_BIN_EXE_wayfs"));
        let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("Documentation=")).collect();
        let path = directory.path().join(unit);
        std::fs::write(&path, kept.join("\n") + "\n").unwrap();
        let checked = Command::new("systemd-analyze").arg("verify").arg(&path).output().unwrap();
        let said = err(&checked);
        let about_us: Vec<&str> = said.lines().filter(|line| line.contains("wayfs")).collect();
        assert!(about_us.is_empty(), "{about_us:?}");
    }
}

#[test]
fn manual_pages_and_completions_cover_every_command() {
    let machine = Machine::new();
    let pages = machine.path("man");
    assert_eq!(code(&machine.run(&["man", "--dir", pages.to_str().unwrap()])), 0);
    for page in ["wayfs.1", "wayfs-mount.1", "wayfs-volume-delete.1", "wayfs-station-list.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = out(&machine.run(&["completions", shell]));
        for word in ["volume", "delete", "nearby", "read-only"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let bash = machine.path("completions.bash");
    std::fs::write(&bash, out(&machine.run(&["completions", "bash"]))).unwrap();
    match Command::new("bash").arg("-n").arg(&bash).output() {
        Ok(checked) => assert!(checked.status.success(), "{}", err(&checked)),
        Err(_) => eprintln!("skipped: no bash here to read its completions"),
    }
}

/// An ordinary user mounts through fusermount3.
#[test]
fn an_ordinary_user_mounts_and_writes() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let is_open = std::fs::metadata("/dev/fuse").is_ok_and(|fuse| fuse.permissions().mode() & 0o006 == 0o006);
    let has_helper = std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|d| d.join("fusermount3").exists());
    if !rustix::process::geteuid().is_root() || !is_open || !has_helper {
        eprintln!("skipped: needs root to become somebody else, fusermount3, and a /dev/fuse that all may open");
        return;
    }
    let machine = Machine::new();
    // The program and all directories must be reached by that user.
    let program = machine.path("wayfs");
    std::fs::copy(env!("CARGO_BIN_EXE_wayfs"), &program).unwrap();
    std::fs::set_permissions(machine.path(""), std::fs::Permissions::from_mode(0o777)).unwrap();
    let run = |arguments: &[&str]| {
        let set = machine.command(&[]);
        let mut command = Command::new(&program);
        command.args(arguments).uid(NOBODY).gid(NOBODY).current_dir("/").env("HOME", machine.path("home"));
        for (name, value) in set.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.output().unwrap()
    };
    let mnt = machine.text("mnt");
    std::fs::create_dir(&mnt).unwrap();
    chown(&mnt, Some(NOBODY), Some(NOBODY)).unwrap();
    let serve = run(&["serve", "--daemon", "--data", &machine.text("data"), "--listen", &machine.listen()]);
    assert_eq!(code(&serve), 0, "{}", err(&serve));
    assert_eq!(code(&run(&["volume", "create", "work"])), 0);
    assert_eq!(code(&run(&["volume", "ticket", "work", "--out", &machine.text("ticket")])), 0);
    let mounted = run(&["mount", "--daemon", &machine.text("ticket"), &mnt, "--cache", &machine.text("cache")]);
    assert!(code(&mounted) == 0 && is_mounted(&mnt), "{}{}", err(&mounted), machine.logs());
    let script = format!("echo mine > {mnt}/file && cat {mnt}/file");
    let written = Command::new("sh").args(["-c", &script]).uid(NOBODY).gid(NOBODY).output().unwrap();
    assert_eq!(out(&written), "mine\n", "the root is whose who made the volume: {}", err(&written));
    let ended = run(&["umount", "--flush", &mnt]);
    assert!(code(&ended) == 0 && !is_mounted(&mnt), "{}", err(&ended));
    assert_eq!(code(&run(&["stop", "--all"])), 0);
}
