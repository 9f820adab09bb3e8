//! A real NFS server on a host of the laboratory, called by our own client.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::time::Duration;
use wayfs_lab::nfs::{NfsClient, NfsServer, Retry, Stability, Transport};
use wayfs_lab::{LabError, Topology, line, read_line};
use wayfs_nfs::calls::Place;
use wayfs_nfs::live::{self, Export, Options, Ports};

#[test]
fn whole_files_pass_a_hop_with_bad_periods_over_both_transports() {
    if !NfsServer::is_installed() {
        eprintln!("SKIPPED: nfs-ganesha or rpcbind is not installed");
        return;
    }
    match transfer() {
        Ok(()) => {}
        Err(error) if error.is_forbidden() => eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
}

fn transfer() -> Result<(), LabError> {
    let mut lab = Topology::new(1)?;
    for host in ["client", "server"] {
        lab.host(host)?;
    }
    // Ten times as fast as published, so that the test is short; a tenth of the time is bad.
    let text = "profile = \"wireless-1mb\"\nboth = { rate_mbps = 10.0 }\nbad_periods = { good_ms = 90, bad_ms = 10 }";
    lab.link("client", "server", read_line(text, std::path::Path::new("."))?)?;
    let server = NfsServer::start(&lab, "server")?;
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    std::os::unix::fs::symlink("made", server.export().join("link")).unwrap();
    let (address, path) = (lab.address("server")?.into(), server.export().to_str().unwrap().to_owned());
    lab.inside("client", || {
        for (transport, retry) in [
            (live::Transport::Udp, "ours"),
            (live::Transport::Udp, "hybrid:first=0.1s,r=3,c=0.05s"),
            (live::Transport::Tcp, "ours"),
        ] {
            let options = Options { transport, retry: retry.parse().unwrap(), ..Options::default() };
            // The port mapper is asked: that way is part of it.
            let mut export = Export::connect(address, Ports::Mapped, &path, &options).unwrap();
            assert_eq!(Export::exports(address, None, &options).unwrap(), std::slice::from_ref(&path));
            let root = export.root().clone();
            let place = Place { directory: &root, name: b"made" };
            let made = export.create(place, 0o640).unwrap();
            assert_eq!(export.write_file(&made, &bytes[..], |_| ()).unwrap(), bytes.len() as u64);
            assert!(std::fs::read(server.export().join("made")).unwrap() == bytes, "written over {transport:?}");
            let found = export.locate("/./link").unwrap();
            assert_eq!((&found.handle, found.attributes.size), (&made, bytes.len() as u64));
            let mut read = vec![0; bytes.len()];
            // A size that is too small only means that the rest is felt for.
            let len = export.read_file(&found.handle, 9, |offset, part| {
                read[offset as usize..][..part.len()].copy_from_slice(part);
                Ok(())
            });
            assert_eq!(len.unwrap(), bytes.len() as u64);
            assert!(read == bytes, "read over {transport:?}");
            let names: Vec<Vec<u8>> = export.list(&root).unwrap().into_iter().map(|entry| entry.name).collect();
            assert!(names.contains(&b"made".to_vec()) && names.contains(&b"link".to_vec()), "{names:?}");
            export.remove(place).unwrap();
            let gone = export.locate("made").unwrap_err().to_string();
            assert!(gone.contains("no such file"), "{gone}");
        }
    })
}

#[test]
fn every_call_does_what_it_says_over_both_transports() {
    if !NfsServer::is_installed() {
        eprintln!("SKIPPED: nfs-ganesha or rpcbind is not installed");
        return;
    }
    match serve() {
        Ok(()) => {}
        Err(error) if error.is_forbidden() => eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
}

fn serve() -> Result<(), LabError> {
    let mut lab = Topology::new(1)?;
    for host in ["client", "server"] {
        lab.host(host)?;
    }
    lab.link("client", "server", line("ethernet-100")?)?;
    let server = NfsServer::start(&lab, "server")?;
    std::fs::write(server.export().join("letter"), "hello").unwrap();
    std::os::unix::fs::symlink("letter", server.export().join("link")).unwrap();
    for transport in [Transport::Udp, Transport::Tcp] {
        let retry = Retry::doubling(Duration::from_secs(1), 5);
        let export = server.export().to_str().unwrap();
        let mut client = NfsClient::mount(&lab, "client", "server", export, (transport, retry))?;
        use_it(&mut client, &server);
    }
    Ok(())
}

fn use_it(client: &mut NfsClient, server: &NfsServer) {
    let root = client.root();
    let letter = client.lookup(&root, "letter").unwrap();
    assert_eq!(client.getattr(&letter).unwrap(), 5);
    assert_eq!(client.read(&letter, 1, 100).unwrap(), b"ello");
    let link = client.lookup(&root, "link").unwrap();
    assert_eq!(client.readlink(&link).unwrap(), b"letter");
    client.create(&root, "new").unwrap();
    let new = client.lookup(&root, "new").unwrap();
    // Longer than a packet, so that datagrams come in fragments.
    let text = vec![b'x'; 8192];
    client.write(&new, 0, &text, Stability::Unstable).unwrap();
    client.commit(&new).unwrap();
    client.write(&new, 8192, b"end", Stability::FileSync).unwrap();
    assert_eq!(std::fs::read(server.export().join("new")).unwrap(), [&text[..], b"end"].concat());
    assert_eq!(client.read(&new, 0, 8192).unwrap(), text);
    client.setattr(&new, 0o600).unwrap();
    assert!(client.access(&new).unwrap() > 0);
    assert!(client.readdir(&root).unwrap() >= 3);
    assert!(client.readdirplus(&root).unwrap() >= 3);
    assert!(client.fsstat().unwrap() > 0);
    client.remove(&root, "new").unwrap();
    let missing = client.lookup(&root, "new").unwrap_err();
    assert!(missing.to_string().contains("NOENT"), "{missing}");
}
