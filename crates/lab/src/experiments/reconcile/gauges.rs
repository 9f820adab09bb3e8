//! What daemons tell of themselves while they work: their metrics, asked inside their network, and their processor time.

use crate::{LabError, Sites};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Where every server of these experiments serves its metrics: each has a network of its own.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9475);
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `wayfs serve`: metrics, and no contents that cross before anyone asks, so that only records are measured.
pub(super) fn serve_arguments() -> Vec<String> {
    ["--metrics", &ADDRESS.to_string(), "--policy", "on-demand"].map(str::to_owned).to_vec()
}

/// The metrics of a server at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Gauges(String);

impl Gauges {
    /// Of the server on a host.
    pub(super) fn of(sites: &Sites, host: &str) -> Result<Self, LabError> {
        sites.lab().inside(host, Self::scrape)?.map_err(LabError::io(format!("ask {host} for its metrics")))
    }

    /// Of the server in whose network this thread is.
    pub(super) fn scrape() -> std::io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&ADDRESS, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(Self(text))
    }

    /// The sum of a metric over its labels; zero if there is none.
    pub(super) fn value(&self, name: &str) -> f64 {
        let of_this = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let is_whole = rest.starts_with(['{', ' ']);
            is_whole.then(|| rest.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()))?
        };
        self.0.lines().filter_map(of_this).sum()
    }

    /// Records that a station has and the home has not confirmed.
    pub(super) fn waiting(&self) -> u64 {
        self.value("wayfs_records_waiting") as u64
    }

    /// Whether a station has a session with the home.
    pub(super) fn is_connected(&self) -> bool {
        self.value("wayfs_connected") > 0.0
    }

    /// Records of stations that a home has applied.
    pub(super) fn applied(&self) -> u64 {
        self.value("wayfs_records_applied_total") as u64
    }
}

/// What a home has spent so far, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    /// Its engine: taking records in, ordering them, telling others.
    pub(super) engine: f64,
    /// Making them durable.
    pub(super) disk: f64,
    /// Processor time of the whole process: the above without waits for the disk, and the network, encryption, the kernel.
    pub(super) processor: f64,
}

impl Spent {
    /// By the home so far.
    pub(super) fn by_home(sites: &mut Sites) -> Result<Self, LabError> {
        let gauges = Gauges::of(sites, "home")?;
        if !gauges.0.contains("wayfs_engine_seconds_total") {
            return Err(LabError::Experiment("the program does not tell what a home spends: it is too old".into()));
        }
        let process = sites.daemon("home").map(|process| process.id());
        let process = process.ok_or_else(|| LabError::Experiment("the home does not run".into()))?;
        Ok(Self {
            engine: gauges.value("wayfs_engine_seconds_total"),
            disk: gauges.value("wayfs_sync_seconds_sum"),
            processor: processor_time(process)?.as_secs_f64(),
        })
    }

    /// Since an earlier moment.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            engine: self.engine - earlier.engine,
            disk: self.disk - earlier.disk,
            processor: self.processor - earlier.processor,
        }
    }

    /// Home time as the research means it: work on the records, on disk and all, without the network.
    pub(super) fn home_time(self) -> f64 {
        self.engine + self.disk
    }
}

/// Processor time of all threads of a process, those that ended too.
pub(super) fn processor_time(process: u32) -> Result<Duration, LabError> {
    let failed = |error| LabError::io(format!("read the processor time of process {process}"))(error);
    let process = libc::pid_t::try_from(process).map_err(|error| LabError::Experiment(error.to_string()))?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the clock's number is written to a variable that lives for the call.
    let error = unsafe { libc::clock_getcpuclockid(process, &raw mut clock) };
    if error != 0 {
        return Err(failed(std::io::Error::from_raw_os_error(error)));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written to a variable that lives for the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(failed(std::io::Error::last_os_error()));
    }
    Ok(Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_nanos(time.tv_nsec.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_found_by_their_whole_name() {
        let text =
            "# HELP wayfs_x An x.\nwayfs_x{volume=\"a b\"} 2\nwayfs_x{volume=\"c\"} 1.5\nwayfs_x_sum 7\nwayfs_y 4\n";
        let gauges = Gauges(text.into());
        assert_eq!((gauges.value("wayfs_x"), gauges.value("wayfs_y"), gauges.value("wayfs_z")), (3.5, 4.0, 0.0));
    }

    #[test]
    fn processor_time_of_a_process_that_works_grows() {
        let own = std::process::id();
        let before = processor_time(own).unwrap();
        let mut sum = 0_u64;
        while processor_time(own).unwrap() < before + Duration::from_millis(5) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(processor_time(u32::MAX).is_err());
    }
}
