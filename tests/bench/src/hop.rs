//! What the tools for a bad hop cost in processor time: an end of `wayfs link` for a packet, the NFS client for a call. Beside each what the
//! system calls alone cost, by a program that does nothing else.
//!
//! Needs what the laboratory needs; where that is missing, the rows are.

use crate::table::Row;
use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayfs_lab::nfs::{MOUNT_PORT, NFS_PORT, NfsServer};
use wayfs_lab::{LabError, LinePlan, LinkEnds, LinkTool, Topology};
use wayfs_nfs::live::{Block, Export, Options, Ports};

/// Packets over the link, and datagrams that are passed on.
const PACKETS: usize = 40_000;
/// Bytes of one.
const PACKET_LEN: usize = 1200;
/// Packets that are on their way at once: far less than any queue holds.
const BATCH: usize = 16;
/// Bytes that are read from the NFS server, and those of a call.
const FILE_LEN: u64 = 64 << 20;
const BLOCK: u32 = 4096;
/// Bytes of a call that asks for a block.
const CALL_LEN: usize = 128;
/// Longest wait for anything.
const WITHIN: Duration = Duration::from_secs(30);

/// The rows, or none where the laboratory cannot be.
pub(crate) fn costs() -> Result<Vec<Row>> {
    eprintln!("the tools for a bad hop");
    match link(&program()?).and_then(|first| Ok((first, nfs()?))) {
        Ok((link, nfs)) => Ok(link.into_iter().chain(nfs).collect()),
        Err(error) if error.downcast_ref::<LabError>().is_some_and(LabError::is_forbidden) => {
            eprintln!("left out: {error}");
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// The program: beside this one, or `$WAYFS_BIN`.
fn program() -> Result<PathBuf> {
    let beside = || Ok(std::env::current_exe()?.parent().context("a program lies somewhere")?.join("wayfs"));
    std::env::var_os("WAYFS_BIN").map_or_else(beside, |path| Ok(path.into()))
}

/// `None`: no NFS server is installed.
fn nfs() -> Result<Option<Row>> {
    if !NfsServer::is_installed() {
        eprintln!("left out: the NFS client (no nfs-ganesha)");
        return Ok(None);
    }
    let mut lab = Topology::new(1)?;
    lab.host("client")?;
    lab.host("server")?;
    lab.link("client", "server", LinePlan::default())?;
    let server = NfsServer::start(&lab, "server")?;
    let file = std::fs::File::create(server.export().join("file"))?;
    file.set_len(FILE_LEN)?;
    let address = IpAddr::from(lab.address("server")?);
    let path = server.export().to_string_lossy().into_owned();
    let ours = lab.inside("client", || -> Result<f64> {
        let options = Options { block: Block::Fixed(BLOCK), ..Options::default() };
        let ports = Ports::Fixed { nfs: NFS_PORT, mount: Some(MOUNT_PORT) };
        let mut export = Export::connect(address, ports, &path, &options)?;
        let file = export.locate("file")?;
        export.take_statistics();
        let before = thread_time();
        export.read_file(&file.handle, FILE_LEN, |_, _| Ok(()))?;
        let spent = thread_time() - before;
        Ok(micros(spent) / export.take_statistics().calls.max(1) as f64)
    })??;
    Ok(Some(row(
        "NFS client: a read of 4 KiB over UDP",
        calls_alone()?,
        ours,
        "send and receive as much, and nothing else",
    )))
}

fn link(program: &Path) -> Result<[Row; 2]> {
    let mut lab = Topology::new(1)?;
    for host in ["mobile", "base", "server"] {
        lab.host(host)?;
    }
    lab.link("mobile", "base", LinePlan::default())?;
    lab.link("base", "server", LinePlan::default())?;
    let mobiles = ["mobile".to_owned()];
    let ends = LinkEnds { mobiles: &mobiles, base: "base", far: "server", scheme: "ours", door: None, place: 0 };
    let tool = LinkTool::start(&lab, program, ends)?;
    let to = lab.inside("server", || UdpSocket::bind("0.0.0.0:0"))??;
    let at = SocketAddr::new(lab.address("server")?.into(), to.local_addr()?.port());
    let from = lab.inside("mobile", || UdpSocket::bind("0.0.0.0:0"))??;
    from.connect(at)?;
    exchange(&from, &to, BATCH * 10)?;
    let before = processor_time(&tool)?;
    exchange(&from, &to, PACKETS)?;
    let spent = processor_time(&tool)? - before;
    let ours = micros(spent) / (2 * PACKETS) as f64;
    let (alone, limit) = (passing_on()?, "pass datagrams on from socket to socket");
    let megabits = |micros: f64| Some(PACKET_LEN as f64 * 8.0 / micros);
    let rate = Row {
        what: "`wayfs link`: what a core carries at one end, packets of 1200 bytes".into(),
        unit: "Mb/s",
        figures: [megabits(alone), None, megabits(ours)],
        limit: format!("the system calls alone (column native): {limit}; sight 500"),
        is_time: false,
    };
    Ok([row("`wayfs link`: one end, a packet of 1200 bytes", alone, ours, limit), rate])
}

fn row(what: &str, alone: f64, ours: f64, limit: &str) -> Row {
    Row {
        what: format!("{what}: processor time"),
        unit: "us",
        figures: [Some(alone), None, Some(ours)],
        limit: format!("the system calls alone (column native): {limit}"),
        is_time: true,
    }
}

/// Sends in batches, each when the last has arrived.
fn exchange(from: &UdpSocket, to: &UdpSocket, count: usize) -> Result<()> {
    to.set_read_timeout(Some(WITHIN))?;
    let mut buffer = [0; 2048];
    for _ in 0..count / BATCH {
        for _ in 0..BATCH {
            from.send(&[7; PACKET_LEN])?;
        }
        for _ in 0..BATCH {
            to.recv(&mut buffer).context("a packet did not arrive")?;
        }
    }
    Ok(())
}

/// What both ends have used, threads of theirs included.
fn processor_time(tool: &LinkTool) -> Result<Duration> {
    let mut total = 0;
    for id in tool.processes() {
        for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let first = text.split_whitespace().next().context("no schedstat")?;
            total += first.parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(total))
}

/// What a datagram costs a program that only passes it on.
fn passing_on() -> Result<f64> {
    let bind = || UdpSocket::bind("127.0.0.1:0");
    let (from, middle, to) = (bind()?, bind()?, bind()?);
    from.connect(middle.local_addr()?)?;
    let at = to.local_addr()?;
    let count = PACKETS / BATCH * BATCH;
    std::thread::scope(|scope| {
        let passing = scope.spawn(move || -> Result<f64> {
            middle.set_read_timeout(Some(WITHIN))?;
            let mut buffer = [0; 2048];
            let before = thread_time();
            for _ in 0..count {
                let len = middle.recv(&mut buffer)?;
                middle.send_to(&buffer[..len], at)?;
            }
            Ok(micros(thread_time() - before) / count as f64)
        });
        exchange(&from, &to, count)?;
        passing.join().expect("passing on does not panic")
    })
}

/// What a call and its answer cost a client that does not look at them.
fn calls_alone() -> Result<f64> {
    let bind = || UdpSocket::bind("127.0.0.1:0");
    let (client, server) = (bind()?, bind()?);
    client.connect(server.local_addr()?)?;
    client.set_read_timeout(Some(WITHIN))?;
    server.set_read_timeout(Some(WITHIN))?;
    let count = (FILE_LEN / u64::from(BLOCK)) as usize;
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || -> Result<()> {
            let mut buffer = [0; 2048];
            for _ in 0..count {
                let (_, from) = server.recv_from(&mut buffer)?;
                server.send_to(&[7; BLOCK as usize + CALL_LEN], from)?;
            }
            Ok(())
        });
        let mut buffer = vec![0; 2 * BLOCK as usize];
        let before = thread_time();
        for _ in 0..count {
            client.send(&[7; CALL_LEN])?;
            client.recv(&mut buffer)?;
        }
        let spent = thread_time() - before;
        serving.join().expect("serving does not panic")?;
        Ok(micros(spent) / count as f64)
    })
}

fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}
