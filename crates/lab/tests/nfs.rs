//! A real NFS server on a host of the laboratory, called by our own client.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::time::Duration;
use wayfs_lab::nfs::{NfsClient, NfsServer, Retry, Stability, Transport};
use wayfs_lab::{LabError, Topology, line};

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
