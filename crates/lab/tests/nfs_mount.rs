//! Programs on `wayfs mount nfs://…`: a real server, a hop that loses everything for a tenth of the time.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::program;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wayfs_lab::nfs::NfsServer;
use wayfs_lab::{LabError, Link, MountPoint, Topology, read_line};
use wayfs_link::LineState;

/// Longest time for a script of programs; it takes a few seconds.
const LONG: Duration = Duration::from_secs(300);

/// Which server: that of Debian, or the one in Go (`go install github.com/willscott/go-nfs/example/osnfs@latest`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ganesha,
    Go,
}

/// A client that has mounted what a server exports.
struct World {
    lab: Topology,
    link: Link,
    /// What ends the server when it is dropped, and its directory.
    _server: Box<dyn std::any::Any>,
    export: PathBuf,
    point: MountPoint,
}

impl World {
    fn new(kind: Kind, options: &str) -> Result<Self, LabError> {
        let mut lab = Topology::new(1)?;
        for host in ["client", "server"] {
            lab.host(host)?;
        }
        // Faster than published, so that the test is short; a tenth of the time is bad.
        let text =
            "profile = \"wireless-1mb\"\nboth = { rate_mbps = 50.0 }\nbad_periods = { good_ms = 180, bad_ms = 20 }";
        let link = lab.link("client", "server", read_line(text, Path::new("."))?)?;
        let address = lab.address("server")?;
        let (server, export, url): (Box<dyn std::any::Any>, _, _) = match kind {
            Kind::Ganesha => {
                let server = NfsServer::start(&lab, "server")?;
                let export = server.export().to_owned();
                let url = format!("nfs://{address}{}", export.display());
                (Box::new(server), export, url)
            }
            Kind::Go => {
                let export = lab.directory("server")?.join("export");
                std::fs::create_dir_all(&export).map_err(LabError::io("make the export"))?;
                let mut command = Command::new("osnfs");
                command.arg(&export).arg("2049");
                (Box::new(lab.spawn("server", "osnfs", command)?), export, format!("nfs://{address}:2049/"))
            }
        };
        let point = lab.mount_point("client")?;
        let world = Self { lab, link, _server: server, export, point };
        let point = world.point.path().display().to_string();
        let (succeeded, text) = world.wayfs(&["mount", &url, &point, "-o", options, "--daemon"])?;
        assert!(succeeded, "{text}");
        Ok(world)
    }

    fn wayfs(&self, arguments: &[&str]) -> Result<(bool, String), LabError> {
        let mut command = self.lab.wayfs("client", &program())?;
        command.args(arguments);
        self.finish(command)
    }

    /// A script in the mount.
    fn shell(&self, script: &str) -> Result<(bool, String), LabError> {
        let mut command = Command::new("sh");
        command.args(["-euxc", &format!("cd '{}'\n{script}", self.point.path().display())]);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("HOME", "/nonexistent");
        self.finish(command)
    }

    fn finish(&self, command: Command) -> Result<(bool, String), LabError> {
        let output = self.lab.run("client", command, LONG)?;
        let text = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
    }
}

fn with_world(kind: Kind, options: &str, test: impl FnOnce(&World) -> Result<(), LabError>) {
    let is_installed = match kind {
        Kind::Ganesha => NfsServer::is_installed(),
        Kind::Go => Command::new("osnfs").output().is_ok(),
    };
    if !is_installed {
        eprintln!("SKIPPED: {kind:?} is not installed");
        return;
    }
    match World::new(kind, options).and_then(|world| test(&world)) {
        Ok(()) => {}
        Err(error) if error.is_forbidden() => eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
}

/// What people do in a directory. Each line ends the script if it fails.
const PROGRAMS: &str = r#"
mkdir source && cd source
for n in 1 2 3 4 5 6; do printf 'int f%s(int x) { return x + %s; }\n' $n $n > f$n.c; done
printf 'int f1(int); int f6(int); int main(void) { return f1(1) + f6(1) - 9; }\n' > main.c
printf 'prog: main.o f1.o f2.o f3.o f4.o f5.o f6.o\n\tcc -o $@ $^\n%%.o: %%.c\n\tcc -c -o $@ $<\n' > Makefile
make -s -j3 && ./prog
test "$(make prog)" = "make: 'prog' is up to date." || make -q prog
cd ..
tar cf tree.tar source && mkdir out && tar xf tree.tar -C out && diff -r source out/source
if command -v git; then
    cd source && git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm one && cd ..
    git clone -q source copy && git -C copy fsck --strict && diff source/main.c copy/main.c
    git -C copy status --porcelain > status && test ! -s status
fi
if command -v sqlite3; then
    sqlite3 base.db 'create table t(x); begin; insert into t values(1),(2),(3); commit; update t set x = x * 10;'
    test "$(sqlite3 base.db 'select sum(x) from t; pragma integrity_check;' | tr '\n' ' ')" = '60 ok '
fi
for n in $(seq 1 60); do echo $n > many-$n; done
test "$(ls many-* | wc -l)" = 60 && rm many-*
seq 1 20000 > numbers && sort -rn numbers | head -1 | grep -x 20000 && sed -i s/7/seven/ numbers && grep -c seven numbers
(echo before; rm numbers; cat) < numbers | tail -1 | grep 20000
chmod 600 tree.tar && test "$(stat -c %a tree.tar)" = 600 && touch -d @1000 tree.tar && test "$(stat -c %Y tree.tar)" = 1000
"#;

fn people_work(kind: Kind, options: &str) {
    with_world(kind, options, |world| {
        let (succeeded, text) = world.shell(PROGRAMS)?;
        assert!(succeeded, "with {options}:\n{text}");
        let (succeeded, text) = world.wayfs(&["status"])?;
        assert!(succeeded && text.contains("nfs://") && text.contains("connected"), "{text}");
        let point = world.point.path().display().to_string();
        let (succeeded, text) = world.wayfs(&["umount", &point])?;
        assert!(succeeded && text.contains("everything is safe"), "{text}");
        // The server's own disk has it all, and nothing besides.
        let export = &world.export;
        assert!(export.join("source/prog").exists());
        let left: Vec<_> = std::fs::read_dir(export).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".nfs")), "{left:?}");
        Ok(())
    });
}

#[test]
fn people_work_on_a_mount_over_datagrams() {
    people_work(Kind::Ganesha, "proto=udp");
}

#[test]
fn people_work_on_a_mount_over_a_stream() {
    people_work(Kind::Ganesha, "proto=tcp,bsize=8192");
}

#[test]
fn people_work_on_a_mount_of_another_server() {
    people_work(Kind::Go, "proto=tcp,mountport=2049");
}

#[test]
fn a_server_that_is_gone_does_not_hold_the_mount() {
    with_world(Kind::Ganesha, "proto=udp", |world| {
        let (succeeded, text) = world.shell("echo kept > kept; sync .")?;
        assert!(succeeded, "{text}");
        world.lab.set_state(world.link, LineState::Cut);
        // Whoever waits can be ended.
        let (succeeded, text) = world.shell("timeout --signal=INT 2 ls -l kept elsewhere || test $? = 124")?;
        assert!(succeeded, "{text}");
        let (succeeded, text) = world.wayfs(&["umount", "--force", &world.point.path().display().to_string()])?;
        assert!(succeeded && !world.point.is_mounted(), "{text}");
        world.lab.set_state(world.link, LineState::Connected);
        assert_eq!(std::fs::read_to_string(world.export.join("kept")).unwrap(), "kept\n");
        Ok(())
    });
}
