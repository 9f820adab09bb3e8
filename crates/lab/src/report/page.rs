//! The pages, as HTML that needs nothing beside it.

use super::plot;
use super::scale::short;
use crate::figure::Figure;
use crate::summary::{Aim, Row, Summary, Verdict};
use crate::{Estimate, IdleCores};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// Adds a line. Writing to a string does not fail.
macro_rules! add {
    ($out:expr, $($piece:tt)*) => { let _ = writeln!($out, $($piece)*); };
}

/// The page of a run.
pub(crate) fn page(summary: &Summary) -> String {
    let mut out = head(&format!("WayFS laboratory: {}", summary.experiment));
    add!(out, "<h1>{}</h1>\n<p class=\"about\">{}</p>", escape(&summary.experiment), escape(&summary.about));
    warnings(&mut out, summary);
    let findings = &summary.findings;
    for (title, text) in [
        ("What was expected", &findings.expected),
        ("What came out", &findings.came_out),
        ("Why they differ", &findings.why_they_differ),
    ] {
        if !text.is_empty() {
            add!(out, "<h2>{title}</h2>\n<p>{}</p>", escape(text).replace("\n\n", "</p>\n<p>"));
        }
    }
    if !findings.rows.is_empty() {
        rows(&mut out, &findings.rows);
    }
    for figure in &findings.figures {
        draw(&mut out, figure);
    }
    circumstances(&mut out, summary);
    out.push_str("</body></html>\n");
    out
}

/// The page that lists several runs, with the places of their own pages.
pub(crate) fn index(summaries: &[(String, Summary)]) -> String {
    let mut out = head("WayFS laboratory");
    out.push_str("<h1>WayFS laboratory</h1>\n<table><tr><th>experiment</th><th>asks</th><th class=n>as wanted</th><th>not as wanted</th></tr>\n");
    for (place, summary) in summaries {
        let count = |verdict| summary.findings.rows.iter().filter(|row| row.verdict() == verdict).count();
        let missed: Vec<String> = summary.missed().map(|row| escape(&row.what)).collect();
        let mut state = if summary.quick { " (quick run)".to_owned() } else { String::new() };
        if summary.rejected().next().is_some() {
            state.push_str(" <span class=missed>(parts rejected)</span>");
        }
        add!(
            out,
            "<tr><td><a href=\"{}\">{}</a>{state}</td><td>{}</td><td class=n>{} of {}</td><td>{}</td></tr>",
            escape(place),
            escape(&summary.experiment),
            escape(&summary.about),
            count(Verdict::Met),
            count(Verdict::Met) + count(Verdict::Missed),
            missed.join("<br>")
        );
    }
    out.push_str("</table></body></html>\n");
    out
}

fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n<style>\n{STYLE}</style></head><body>\n",
        escape(title)
    )
}

fn warnings(out: &mut String, summary: &Summary) {
    if summary.quick {
        add!(out, "<p class=warning>A quick run, to see that the experiment works. Its numbers say little.</p>");
    }
    let rejected: Vec<String> = summary.rejected().map(|part| escape(&part.part)).collect();
    if !rejected.is_empty() {
        add!(
            out,
            "<p class=warning>Rejected, because the emulator was more than 1 ms late for more than one packet in a hundred: {}. \
             These parts measured the machine, not the lines; repeat them on a quieter one.</p>",
            rejected.join(", ")
        );
    }
}

fn rows(out: &mut String, rows: &[Row]) {
    let has_published = rows.iter().any(|row| row.published.is_some());
    let published = if has_published { "<th class=n>published</th>" } else { "" };
    add!(
        out,
        "<h2>Numbers</h2>\n<table><tr><th>what</th><th class=n>ours</th><th class=n>95 % interval</th>{published}<th>wanted</th><th>note</th></tr>"
    );
    for row in rows {
        let class = match row.verdict() {
            Verdict::Open => "",
            Verdict::Met => " class=met",
            Verdict::Missed => " class=missed",
        };
        let published = match (has_published, row.published) {
            (false, _) => String::new(),
            (true, None) => "<td></td>".to_owned(),
            (true, Some(value)) => format!("<td class=n>{}</td>", short(value)),
        };
        add!(
            out,
            "<tr><td>{}</td><td class=n>{} {}</td><td class=n>{}</td>{published}<td{class}>{}</td><td>{}</td></tr>",
            escape(&row.what),
            short(row.ours.mean),
            escape(&row.unit),
            interval(&row.ours),
            wanted(row),
            escape(&row.note)
        );
    }
    out.push_str("</table>\n");
}

fn interval(estimate: &Estimate) -> String {
    if estimate.samples < 2 {
        return String::new();
    }
    format!("{} to {} (n={})", short(estimate.low), short(estimate.high), estimate.samples)
}

fn wanted(row: &Row) -> String {
    let aim = match row.aim {
        Aim::None => return String::new(),
        Aim::AtLeast(least) => format!("at least {}", short(least)),
        Aim::AtMost(most) => format!("at most {}", short(most)),
        Aim::Between(low, high) => format!("{} to {}", short(low), short(high)),
        Aim::Holds(value) => format!("interval holds {}", short(value)),
    };
    match row.verdict() {
        Verdict::Missed => format!("{aim}: missed"),
        Verdict::Met | Verdict::Open => aim,
    }
}

fn draw(out: &mut String, figure: &Figure) {
    add!(out, "<h2>{}</h2>\n<figure>", escape(&figure.title));
    out.push_str(&plot::svg(figure));
    add!(out, "<figcaption>{}</figcaption></figure>", escape(&figure.caption));
}

fn circumstances(out: &mut String, summary: &Summary) {
    let machine = &summary.machine;
    let quick = if summary.quick { " --quick" } else { "" };
    add!(out, "<h2>Circumstances</h2>");
    add!(
        out,
        "<p>Linux {}, {} cores, {}, load {} at the start. Took {:.0} s. Repeat: <code>wayfs lab run {} --seed {}{quick}</code></p>",
        escape(&machine.kernel),
        machine.cores,
        escape(&machine.processor),
        short(machine.load),
        summary.seconds,
        escape(&summary.experiment),
        summary.seed
    );
    add!(out, "<p>{}</p>", escape(&cores(&summary.idle_cores)));
    if !summary.data.is_empty() {
        let files: Vec<String> =
            summary.data.iter().map(|name| format!("<a href=\"{0}\">{0}</a>", escape(name))).collect();
        add!(out, "<p>Raw data: {}</p>", files.join(", "));
    }
    if summary.lateness.is_empty() {
        return;
    }
    add!(
        out,
        "<p>How late the emulator wrote packets:</p>\n<table><tr><th>part</th><th class=n>packets</th><th class=n>p50</th><th class=n>p99</th><th class=n>max</th></tr>"
    );
    for part in &summary.lateness {
        let class = if part.lateness.is_rejected() { "n missed" } else { "n" };
        add!(
            out,
            "<tr><td>{}</td><td class=n>{}</td><td class=n>{} us</td><td class=\"{class}\">{} us</td><td class=n>{} us</td></tr>",
            escape(&part.part),
            part.lateness.packets,
            short(part.lateness.p50_us),
            short(part.lateness.p99_us),
            short(part.lateness.max_us)
        );
    }
    out.push_str("</table>\n");
}

/// What a reader of delays has to know of the cores.
fn cores(idle: &IdleCores) -> String {
    match idle {
        IdleCores::Awake => "Idle cores were kept awake.".into(),
        IdleCores::Asleep => "Idle cores were not kept awake.".into(),
        IdleCores::Refused(why) => {
            format!("Idle cores could not be kept awake ({why}): packets are late by what one takes to wake up.")
        }
    }
}

/// Text as HTML shows it.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Findings, LatenessOf, Machine};
    use crate::{Axis, Lateness, Origin, Series, Style};

    fn summary(lateness_us: f64) -> Summary {
        let late = Lateness { packets: 10, p50_us: 1.0, p99_us: lateness_us, max_us: lateness_us };
        let row = |what: &str, mean| Row::new(what, "s", Estimate::exact(mean)).published(3.0).aim(Aim::AtMost(2.0));
        Summary {
            experiment: "example".into(),
            about: "is 1 < 2?".into(),
            seed: 7,
            quick: false,
            started: 0,
            seconds: 3.0,
            machine: Machine::default(),
            idle_cores: IdleCores::Refused("<device>".into()),
            lateness: vec![LatenessOf { part: "all".into(), lateness: late }],
            data: vec!["raw.csv".into()],
            findings: Findings {
                expected: "yes".into(),
                came_out: "yes".into(),
                rows: vec![row("good", 1.0), row("bad", 5.0)],
                figures: vec![Figure {
                    title: "a plot".into(),
                    x: Axis::linear("x", ""),
                    y: Axis::linear("y", ""),
                    series: vec![Series::new("s", Style::Lines, Origin::Measured, [(0.0, 1.0)])],
                    caption: "see".into(),
                }],
                ..Findings::default()
            },
        }
    }

    #[test]
    fn a_page_has_everything_and_needs_nothing() {
        let page = page(&summary(10.0));
        assert!(page.contains("is 1 &lt; 2?") && page.contains("<svg") && page.contains("at most 2: missed"));
        assert!(page.contains("wayfs lab run example --seed 7") && !page.contains("Rejected"));
        assert!(page.contains("could not be kept awake (&lt;device&gt;)"));
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("@import"));
    }

    #[test]
    fn late_parts_are_shown_as_rejected() {
        assert!(page(&summary(1001.0)).contains("Rejected"));
        assert!(index(&[("a".into(), summary(1001.0))]).contains("parts rejected"));
    }

    #[test]
    fn the_index_counts_what_came_out_as_wanted() {
        let index = index(&[("example/report.html".into(), summary(1.0))]);
        assert!(index.contains("1 of 2") && index.contains("href=\"example/report.html\"") && index.contains("bad"));
    }
}
