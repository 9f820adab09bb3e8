//! Damaged files in words.

use super::table::clean;
use std::fmt::Write;
use wayfs_control::report::{RepairReport, RepairState, VolumeRepair};

/// A line for each volume, and what is damaged under it.
pub(crate) fn repairs(reports: &[RepairReport]) -> String {
    let mut text = String::new();
    for report in reports {
        let _ = writeln!(text, "{}", report.place.display());
        report.volumes.iter().for_each(|volume| one(&mut text, volume));
    }
    text
}

fn one(text: &mut String, volume: &VolumeRepair) {
    let state = match volume.state {
        RepairState::Whole => format!("whole ({} rows read)", volume.rows),
        RepairState::Damaged => "damaged".to_owned(),
        RepairState::Repaired => "repaired".to_owned(),
        RepairState::Hopeless => "damaged, and cannot be repaired here".to_owned(),
        RepairState::InUse => "in use, not looked at".to_owned(),
    };
    let _ = writeln!(text, "  {} ({}): {state}", clean(&volume.volume), volume.role);
    for file in &volume.files {
        let _ = writeln!(text, "    {}: {}", file.path.display(), clean(&file.what));
        for (name, value) in [("repair", &file.remedy), ("lost", &file.lost)] {
            if !value.is_empty() {
                let _ = writeln!(text, "      {name}: {}", clean(value));
            }
        }
    }
    if !volume.next_step.is_empty() {
        let _ = writeln!(text, "    → {}", clean(&volume.next_step));
    }
}
