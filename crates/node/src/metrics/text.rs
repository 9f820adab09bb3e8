//! The Prometheus text format.

use super::Histogram;
use super::number::Bucket;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Collects samples and writes them with one header for each name.
#[derive(Debug, Default)]
pub struct Text {
    families: BTreeMap<&'static str, (&'static str, &'static str, Vec<String>)>,
}

impl Text {
    /// A number that goes up and down.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, labels: &[(&str, &str)], value: f64) {
        self.sample(name, "gauge", help, format!("{name}{} {value}", braces(labels)));
    }

    /// A number that only grows.
    pub fn counter(&mut self, name: &'static str, help: &'static str, labels: &[(&str, &str)], value: u64) {
        self.sample(name, "counter", help, format!("{name}{} {value}", braces(labels)));
    }

    /// Time that only grows, in seconds.
    pub fn time(&mut self, name: &'static str, help: &'static str, labels: &[(&str, &str)], value: Duration) {
        self.sample(name, "counter", help, format!("{name}{} {}", braces(labels), value.as_secs_f64()));
    }

    /// Durations in seconds.
    pub fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        histogram: &Histogram,
    ) {
        let mut lines = String::new();
        for Bucket { seconds_max, count } in histogram.buckets() {
            let bound = seconds_max.to_string();
            let mut with_bound = labels.to_vec();
            with_bound.push(("le", &bound));
            let _ = writeln!(lines, "{name}_bucket{} {count}", braces(&with_bound));
        }
        let mut all = labels.to_vec();
        all.push(("le", "+Inf"));
        let _ = writeln!(lines, "{name}_bucket{} {}", braces(&all), histogram.count());
        let _ = writeln!(lines, "{name}_sum{} {}", braces(labels), histogram.seconds());
        let _ = write!(lines, "{name}_count{} {}", braces(labels), histogram.count());
        self.sample(name, "histogram", help, lines);
    }

    /// The whole text.
    pub fn finish(self) -> String {
        let mut text = String::new();
        for (name, (kind, help, lines)) in self.families {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{}", lines.join("\n"));
        }
        text
    }

    fn sample(&mut self, name: &'static str, kind: &'static str, help: &'static str, line: String) {
        self.families.entry(name).or_insert_with(|| (kind, help, Vec::new())).2.push(line);
    }
}

fn braces(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let histogram = Histogram::default();
        histogram.observe(Duration::from_millis(3));
        let mut text = Text::default();
        text.gauge("wayfs_x", "An x.", &[("volume", "a\"b")], 1.5);
        text.histogram("wayfs_y_seconds", "A y.", &[], &histogram);
        text.time("wayfs_z_seconds_total", "A z.", &[], Duration::from_micros(1500));
        let text = text.finish();
        assert!(text.contains("# TYPE wayfs_x gauge\nwayfs_x{volume=\"a\\\"b\"} 1.5\n"), "{text}");
        assert!(text.contains("wayfs_y_seconds_bucket{le=\"0.0025\"} 0\n"), "{text}");
        assert!(text.contains("wayfs_y_seconds_bucket{le=\"0.005\"} 1\n"), "{text}");
        assert!(text.contains("wayfs_y_seconds_count 1\n"), "{text}");
        assert!(text.contains("# TYPE wayfs_z_seconds_total counter\nwayfs_z_seconds_total 0.0015\n"), "{text}");
    }
}
