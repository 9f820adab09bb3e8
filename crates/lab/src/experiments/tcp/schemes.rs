//! The rows of the tables: who does what.

use crate::wireless::{Hop, Reader, Route, Transfer};
use wayfs_hop::{Duplicates, Scheme as HopScheme, SnoopConfig};
use wayfs_tcp::{Config, Scheme};

/// A row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// What the fixed host speaks.
    fixed: Scheme,
    /// What the mobile speaks: it decides what its acknowledgements tell.
    mobile: Scheme,
    hop: HopScheme,
    /// Whether anything is lost at all.
    lossless: bool,
}

/// The row of a name; `None` for a name that is none.
pub(super) fn row(name: &'static str) -> Option<Row> {
    let scheme = |name: &str| name.parse::<HopScheme>().ok();
    let passed = |scheme: HopScheme| match scheme {
        HopScheme::Snoop(config) => HopScheme::Snoop(SnoopConfig { duplicates: Duplicates::Passed, ..config }),
        other => other,
    };
    let (fixed, mobile, hop) = match name {
        "LL" => (Scheme::Reno, Scheme::Reno, passed(scheme("snoop")?)),
        "LL-TCP-AWARE" => (Scheme::Reno, Scheme::Reno, scheme("snoop")?),
        "LL-SACK" => (Scheme::Reno, Scheme::Smart, passed(scheme("snoop-sack")?)),
        "LL-STCP-AWARE" => (Scheme::Reno, Scheme::Smart, scheme("snoop-sack")?),
        "E2E" | "no losses" => (Scheme::Reno, Scheme::Reno, HopScheme::None),
        "E2E-NEWRENO" => (Scheme::NewReno, Scheme::NewReno, HopScheme::None),
        "E2E-SMART" => (Scheme::Smart, Scheme::Smart, HopScheme::None),
        "E2E-IETF-SACK" => (Scheme::Sack, Scheme::Sack, HopScheme::None),
        "E2E-ELN" => (Scheme::Eln, Scheme::Eln, scheme("eln")?),
        "E2E-ELN-RXMT" => (Scheme::ElnFirst, Scheme::ElnFirst, scheme("eln")?),
        "SPLIT" => (Scheme::Reno, Scheme::Reno, scheme("split")?),
        "SPLIT-SMART" => (Scheme::Reno, Scheme::Smart, scheme("split-sack")?),
        // The link layers whose ends acknowledge frames themselves, which the comparison had not.
        "ll" | "ll-order" | "ll-sack" | "ours" | "fec:12,10" => (Scheme::Reno, Scheme::Reno, scheme(name)?),
        "E2E-CUBIC" | "ours, CUBIC" => {
            (Scheme::Cubic, Scheme::Cubic, if name == "E2E-CUBIC" { HopScheme::None } else { scheme("ours")? })
        }
        "E2E-BBR" | "ours, BBR" => {
            (Scheme::Bbr, Scheme::Bbr, if name == "E2E-BBR" { HopScheme::None } else { scheme("ours")? })
        }
        _ => return None,
    };
    Some(Row { fixed, mobile, hop, lossless: name == "no losses" })
}

/// Where it runs.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) wire: Hop,
    /// Bytes of the socket buffers.
    pub(super) buffer: u32,
    pub(super) bytes_per_error: f64,
    /// Packets that an error takes.
    pub(super) run: u32,
}

/// Least socket buffers of today's schemes.
pub(super) const BUFFER_MODERN: u32 = 256 * 1024;

/// Most of the kernels of today: fine timers, ten segments at the start.
fn end(scheme: Scheme, buffer: u32) -> Config {
    match scheme {
        Scheme::Cubic | Scheme::Bbr => Config { buffer: buffer.max(BUFFER_MODERN), ..Config::modern(scheme) },
        Scheme::Reno | Scheme::NewReno | Scheme::Smart | Scheme::Sack | Scheme::Eln | Scheme::ElnFirst => {
            Config { scheme, buffer, ..Config::default() }
        }
    }
}

/// Bytes of a transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Of each buffer at its ends.
    pub(super) buffer: u32,
    /// That are carried.
    pub(super) bytes: u32,
}

impl Row {
    /// A transfer of so many bytes.
    pub(super) fn transfer(&self, setting: &Setting, bytes: u32, seed: u64) -> Transfer {
        let errors = if self.lossless { 0.0 } else { setting.bytes_per_error };
        let route = Route::through(setting.wire.clone(), Hop::radio(errors, setting.run, self.hop));
        self.over(route, Sizes { buffer: setting.buffer, bytes }, seed)
    }

    /// The same over another path, on whose hops the scheme is already.
    pub(super) fn over(&self, route: Route, Sizes { buffer, bytes }: Sizes, seed: u64) -> Transfer {
        let mut transfer = Transfer::new(route, end(self.fixed, buffer), end(self.mobile, buffer), bytes, seed);
        if matches!(self.fixed, Scheme::Cubic | Scheme::Bbr) {
            transfer.reader = Reader::FAST;
        }
        if let HopScheme::Split { .. } = self.hop {
            transfer.split = Some([end(self.fixed, buffer), end(self.mobile, buffer)]);
        }
        transfer
    }

    /// What is done about the hop.
    pub(super) const fn hop(&self) -> HopScheme {
        self.hop
    }
}

/// The LAN and the WAN of the comparison, one error per 64 KB.
pub(super) fn lan(buffer: u32) -> Setting {
    Setting { wire: Hop::ethernet(), buffer, bytes_per_error: 65_536.0, run: 1 }
}

pub(super) fn wan(buffer: u32) -> Setting {
    Setting { wire: Hop::wide_area(), ..lan(buffer) }
}
