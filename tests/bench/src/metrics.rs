//! Numbers that a server tells of itself.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The sum of a metric over its labels, of the server that tells its metrics at this port of loopback.
///
/// # Errors
/// It does not answer, or has no such metric.
pub(crate) fn value(port: u16, name: &str) -> Result<f64> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("ask a server for its metrics")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    sum(&text, name).with_context(|| format!("the server does not tell {name}"))
}

fn sum(text: &str, name: &str) -> Option<f64> {
    let of_this = |line: &str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    };
    text.lines().filter_map(of_this).reduce(|one, other| one + other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_found_by_their_whole_name() {
        let text = "# HELP x An x.\nx{volume=\"a b\"} 2\nx{volume=\"c\"} 1.5\nx_sum 7\n";
        assert_eq!((sum(text, "x"), sum(text, "x_sum"), sum(text, "y")), (Some(3.5), Some(7.0), None));
    }
}
