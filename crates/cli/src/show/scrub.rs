//! What reading everything found, in words.

use super::quantity::{Now, age, bytes, count, duration};
use super::table::clean;
use std::fmt::Write;
use wayfs_control::report::{ScrubFound, ScrubReport, ScrubStatus};

/// A line for each volume.
pub(crate) fn scrubbed(report: &ScrubReport) -> String {
    let mut text = String::new();
    for volume in &report.volumes {
        let found = &volume.found;
        let read = format!("{} ({}) read", count(found.chunks, "chunk"), bytes(found.bytes));
        let took = duration(volume.elapsed_ms);
        let (name, role) = (clean(&volume.volume), clean(&volume.role));
        let _ = writeln!(text, "{name} ({role}): {read} in {took}, {}", words(found));
    }
    if report.volumes.is_empty() {
        text.push_str("No volumes are kept here.\n");
    }
    text
}

/// The line of the one screen; empty before anything was read.
pub(super) fn line(status: &ScrubStatus, now: Now) -> String {
    let whole = status.ended_unix_ms.map(|at| format!("all read {}: {}", age(at, now), words(&status.found_before)));
    let under_way = status.began_unix_ms.filter(|_| status.found.chunks > 0).map(|at| {
        let (read, since) = (bytes(status.found.bytes), age(at, now));
        format!("{read} read since a pass began {since}: {}", words(&status.found))
    });
    whole.into_iter().chain(under_way).collect::<Vec<_>>().join("; ")
}

fn words(found: &ScrubFound) -> String {
    if found.damaged == 0 {
        return "nothing damaged".to_owned();
    }
    let parts = [
        (found.damaged, "damaged"),
        (found.renewed, "fetched anew"),
        (found.lost, "with nobody who is reached"),
        (found.waiting, "not to be had at the moment"),
    ];
    let told = parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}"));
    told.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_control::report::VolumeScrub;

    const FOUND: ScrubFound = ScrubFound { chunks: 1, bytes: 2048, damaged: 3, renewed: 1, lost: 2, waiting: 0 };

    #[test]
    fn it_says_what_was_read_and_what_became_of_what_is_damaged() {
        let volume = VolumeScrub { volume: "photos".into(), role: "home".into(), found: FOUND, elapsed_ms: 1000 };
        let sound = ScrubFound { chunks: 9, ..ScrubFound::default() };
        let other = VolumeScrub { volume: "mail".into(), found: sound, ..volume.clone() };
        let text = scrubbed(&ScrubReport { volumes: vec![volume, other] });
        let expected = "\
photos (home): 1 chunk (2.0 KiB) read in 1.0 s, 3 damaged, 1 fetched anew, 2 with nobody who is reached
mail (home): 9 chunks (0 B) read in 1.0 s, nothing damaged
";
        assert_eq!(text, expected);
        assert_eq!(scrubbed(&ScrubReport::default()), "No volumes are kept here.\n");
    }

    #[test]
    fn the_screen_has_the_last_whole_pass_and_the_one_under_way() {
        assert_eq!(line(&ScrubStatus::default(), Now(0)), "");
        let status = ScrubStatus {
            ended_unix_ms: Some(0),
            found_before: ScrubFound::default(),
            began_unix_ms: Some(60_000),
            found: FOUND,
        };
        let text = line(&status, Now(120_000));
        assert!(
            text.starts_with("all read ") && text.contains("nothing damaged; 2.0 KiB read since a pass began"),
            "{text}"
        );
        assert!(text.ends_with("3 damaged, 1 fetched anew, 2 with nobody who is reached"), "{text}");
    }
}
