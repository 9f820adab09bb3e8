use super::*;
use clap::CommandFactory;
use wayfs_control::Keep;

fn parse(line: &str) -> Result<Args, clap::Error> {
    Args::try_parse_from(line.split_whitespace())
}

#[test]
fn clap_accepts_the_declarations() {
    Args::command().debug_assert();
}

#[test]
fn every_command_of_the_manual_is_accepted() {
    let lines = "
        wayfs serve
        wayfs serve --data /d --listen 127.0.0.1:7475 --advertise home.example.org:7475 --policy ih:2 --metrics 127.0.0.1:9420 --daemon
        wayfs mount wayfs1-abc /mnt
        wayfs mount /mnt
        wayfs mount photos /mnt -o ro,allow_other,cache_size=1GiB --daemon --cache-size 10GiB --close safe --read-only
        wayfs mount - /mnt --cache /c --allow-other --metrics 127.0.0.1:1
        wayfs umount /mnt
        wayfs umount --flush --timeout 5 --force /mnt
        wayfs stop
        wayfs stop --all
        wayfs --at /data stop
        wayfs volume create photos
        wayfs volume create photos --owner 1000:1000
        wayfs volume create photos --owner ann:staff --group-writable
        wayfs volume list --json
        wayfs volume ticket photos
        wayfs volume ticket photos --station --hours 2 --out /tmp/t
        wayfs volume import photos /srv/photos --into a/b
        wayfs volume import photos /srv/photos
        wayfs volume export photos /tmp/out
        wayfs volume ticket photos --read-only
        wayfs volume promote photos
        wayfs volume promote photos --yes --force
        wayfs doctor --repair
        wayfs doctor --repair /var/lib/wayfs/server --yes --json
        wayfs volume delete photos
        wayfs volume delete photos --yes --force
        wayfs volume export photos --tar -
        wayfs volume import photos --tar /tmp/x.tar --into a
        wayfs volume members photos
        wayfs volume revoke photos ann@lap
        wayfs station join wayfs1-abc
        wayfs station join
        wayfs station list
        wayfs station list --nearby
        wayfs serve --no-mdns
        wayfs mount photos /mnt --no-mdns -o nomdns
        wayfs station use auto
        wayfs station use
        wayfs station why
        wayfs station address home home.example.org:7475
        wayfs station address home auto
        wayfs status --json
        wayfs info a/b --volume photos
        wayfs queue --watch --limit 5 --volume v
        wayfs sync
        wayfs sync a --until stable --timeout 3
        wayfs refresh
        wayfs scrub
        wayfs scrub photos --at /srv/wayfs --json
        wayfs scrub /mnt/photos
        wayfs link base --listen 192.0.2.7:7480 --out /tmp/t --scheme fec:12,10 --pool 10.9.0.0/24
        wayfs link mobile - --default --tries 9 --timeout 200 --window 64 --order free --delay 900 --queue 64 --reservation
        wayfs link status --watch --json
        wayfs link hand-off --socket /tmp/s
        wayfs refresh a/b --timeout 3 --json
        wayfs conflicts list
        wayfs conflicts show 3.4
        wayfs conflicts diff a/b --volume v
        wayfs conflicts resolve a/b --keep newest
        wayfs conflicts resolve --all --glob **/*.txt --keep ann@lap --dry-run
        wayfs lab list
        wayfs lab profiles
        wayfs lab run links --quick --seed 7 --out /tmp/o --set trace=a.csv --set speed=2
        wayfs lab run all
        wayfs lab report
        wayfs lab report /tmp/o
        wayfs lab clean
        wayfs offline
        wayfs online --at /mnt
        wayfs auto
        wayfs pin a
        wayfs unpin a
        wayfs pins
        wayfs events
        wayfs events --text
        wayfs metrics
        wayfs doctor --json
        wayfs debug --out -
        wayfs init
        wayfs init - --force
        wayfs completions bash
        wayfs man --dir /tmp/man";
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Err(error) = parse(line) {
            panic!("{line}: {error}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_code_two() {
    let lines = "
        wayfs
        wayfs dance
        wayfs serve --listen nowhere
        wayfs mount
        wayfs mount a b --close sometimes
        wayfs volume delete
        wayfs volume ticket photos --read-only --station
        wayfs volume export photos
        wayfs volume export photos a --tar b
        wayfs volume import photos
        wayfs sync --until modified
        wayfs conflicts resolve --keep newest
        wayfs conflicts resolve a --all --keep both
        wayfs conflicts resolve a
        wayfs conflicts resolve a --glob x --keep both
        wayfs umount
        wayfs completions csh";
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Err(error) = parse(line) else { panic!("{line} was accepted") };
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

#[test]
fn values_arrive() {
    let CommandArgs::Conflicts(ConflictsCommand::Resolve(resolve)) =
        parse("wayfs conflicts resolve x --keep ann").unwrap().command
    else {
        panic!("another command")
    };
    assert_eq!(resolve.keep, Keep::Name("ann".into()));
    let CommandArgs::Mount(mount) = parse("wayfs mount v /m -o ro,x=1 -o y").unwrap().command else {
        panic!("another command")
    };
    assert_eq!(mount.options, ["ro", "x=1", "y"]);
    assert_eq!(parse("wayfs status --json").unwrap().output(), Output::Json);
}
