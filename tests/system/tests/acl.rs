//! POSIX access control lists, on real mounts with the programs that people use.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Far, Finished, World, run, within};

/// Longest time for a test on a busy machine.
const BUSY: Duration = Duration::from_secs(180);
/// Somebody who owns nothing here.
const SOMEBODY: u32 = 12_345;

/// Whether the programs are there, and users can be changed.
fn can_run() -> bool {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let can = has("setfacl") && has("getfacl") && rustix::process::geteuid().is_root();
    if !can {
        eprintln!("skipped: needs root and the package acl (scripts/needs.sh --for-tests)");
    }
    can
}

fn setfacl(arguments: &[&str], path: &Path) {
    run(Command::new("setfacl").args(arguments).arg(path)).ok();
}

/// What `getfacl` says, without the line that names the file.
fn getfacl(path: &Path) -> String {
    let shown =
        run(Command::new("getfacl").args(["--absolute-names", "--numeric", "--omit-header"]).arg(path)).ok().out;
    shown
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.split_whitespace().next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join(" ")
}

fn as_somebody(program: &str, arguments: &[&str], path: &Path) -> Finished {
    run(Command::new(program).args(arguments).arg(path).uid(SOMEBODY).gid(SOMEBODY))
}

/// Others get to the mount.
fn open_up(path: &Path) {
    for above in path.ancestors().take_while(|above| *above != Path::new("/tmp") && *above != Path::new("/")) {
        let Ok(found) = fs::metadata(above) else { continue };
        let mode = found.mode() | 0o011;
        if found.mode() & 0o001 == 0 {
            fs::set_permissions(above, PermissionsExt::from_mode(mode)).unwrap();
        }
    }
}

/// Proves [S-acl].
#[test]
fn lists_are_kept_checked_and_handed_on() {
    if !can_run() {
        return;
    }
    within("access control lists", BUSY, || {
        let world = World::default();
        let d = world.directory("d");
        open_up(&d);
        let file = d.join("secret");
        fs::write(&file, "words").unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(!as_somebody("cat", &[], &file).status.success());
        setfacl(&["-m", "u:12345:r"], &file);
        assert_eq!(as_somebody("cat", &[], &file).ok().out, "words");
        assert_eq!(getfacl(&file), "user::rw- user:12345:r-- group::--- mask::r-- other::---");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);

        // The mask is what `chmod` changes.
        fs::set_permissions(&file, PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(getfacl(&file), "user::rwx user:12345:r-- group::--- mask::--- other::---");
        assert!(!as_somebody("cat", &[], &file).status.success());
        setfacl(&["-b"], &file);
        assert_eq!(getfacl(&file), "user::rwx group::--- other::---");

        // What is made below has what the directory hands on, whatever the umask; else the umask holds.
        setfacl(&["-d", "-m", "u:12345:rwx,o::-"], &d);
        run(Command::new("sh")
            .args(["-c", "umask 077; echo new >\"$0/made\"; mkdir \"$0/sub\"; mkfifo \"$0/sub/pipe\""])
            .arg(&d))
        .ok();
        assert_eq!(getfacl(&d.join("made")), "user::rw- user:12345:rwx group::r-x mask::rw- other::---");
        let handed_on =
            "default:user::rwx default:user:12345:rwx default:group::r-x default:mask::rwx default:other::---";
        assert_eq!(
            getfacl(&d.join("sub")),
            format!("user::rwx user:12345:rwx group::r-x mask::rwx other::--- {handed_on}")
        );
        assert_eq!(getfacl(&d.join("sub/pipe")), "user::rw- user:12345:rwx group::r-x mask::rw- other::---");
        as_somebody("touch", &[], &d.join("sub/his")).ok();
        setfacl(&["-k"], &d);
        run(Command::new("sh").args(["-c", "umask 027; echo new >\"$0/masked\"; mkdir \"$0/masked-too\""]).arg(&d))
            .ok();
        let modes = ["masked", "masked-too"].map(|name| fs::metadata(d.join(name)).unwrap().mode() & 0o777);
        assert_eq!(modes, [0o640, 0o750]);
    });
}

/// Proves [S-acl]: through a station and the home, after a new start, and into archives and out of them.
#[test]
fn lists_are_the_same_everywhere() {
    if !can_run() {
        return;
    }
    within("access control lists on two machines", BUSY, || {
        let mut site = Far::new();
        let [near, far] = site.paths("d");
        fs::create_dir(&near).unwrap();
        setfacl(&["-d", "-m", "u:12345:rwx,g:54321:r"], &near);
        fs::write(near.join("file"), "words").unwrap();
        let (directory, file) = (getfacl(&near), getfacl(&near.join("file")));
        assert!(file.contains("user:12345:rwx") && file.contains("group:54321:r--"), "{file}");
        site.hand_over();
        assert_eq!((getfacl(&far), getfacl(&far.join("file"))), (directory.clone(), file.clone()));
        // One that the other machine knows already.
        setfacl(&["-x", "g:54321"], &near.join("file"));
        site.hand_over();
        let less = getfacl(&near.join("file"));
        assert!(!less.contains("54321"), "{less}");
        assert_eq!(getfacl(&far.join("file")), less);

        site.remount_near();
        assert_eq!((getfacl(&near), getfacl(&near.join("file"))), (directory.clone(), less.clone()));
        let archive = site.near.0.path("d.tar");
        let root = site.near.1.root().to_owned();
        run(Command::new("tar").args(["--acls", "-cf"]).arg(&archive).arg("-C").arg(&root).arg("d")).ok();
        let again = root.join("again");
        fs::create_dir(&again).unwrap();
        run(Command::new("tar").args(["--acls", "-xf"]).arg(&archive).arg("-C").arg(&again)).ok();
        assert_eq!((getfacl(&again.join("d")), getfacl(&again.join("d/file"))), (directory.clone(), less.clone()));
        let copy = root.join("copy");
        run(Command::new("rsync").arg("-aA").arg(root.join("d/")).arg(&copy)).ok();
        assert_eq!((getfacl(&copy), getfacl(&copy.join("file"))), (directory, less));
    });
}
