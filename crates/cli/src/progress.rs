//! Progress bars with rate and remaining time, on standard error if that is a terminal.

use crate::args::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;
use wayfs_control::{Progress, Reply, Watch};

/// A bar that follows a command.
pub(crate) struct Bar {
    bar: ProgressBar,
    counts: Option<Counts>,
}

/// What the bar counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Bytes,
    Items,
}

impl Bar {
    /// A bar beside this output; none if nobody would see it. (indicatif draws only on a terminal.)
    pub(crate) fn beside(output: Output) -> Self {
        let target = match output {
            Output::Text if std::io::stderr().is_terminal() => ProgressDrawTarget::stderr(),
            Output::Text | Output::Json => ProgressDrawTarget::hidden(),
        };
        Self { bar: ProgressBar::with_draw_target(None, target), counts: None }
    }

    /// Shows one state.
    pub(crate) fn show(&mut self, progress: &Progress) {
        let counts = if progress.total_bytes > 0 { Counts::Bytes } else { Counts::Items };
        if self.counts != Some(counts) {
            self.counts = Some(counts);
            self.bar.set_style(style(counts, progress));
            self.bar.enable_steady_tick(Duration::from_millis(200));
        }
        let (done, total) = match counts {
            Counts::Bytes => (progress.done_bytes, progress.total_bytes),
            Counts::Items => (progress.done_items, progress.total_items),
        };
        if total > 0 {
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
        self.bar.set_message(progress.what.clone());
    }

    /// For [`wayfs_control::ControlClient::call`].
    pub(crate) fn watch(&mut self, reply: &Reply) -> Watch {
        if let Reply::Progress(progress) = reply {
            self.show(progress);
        }
        Watch::GoOn
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(counts: Counts, progress: &Progress) -> ProgressStyle {
    let template = match (counts, progress.total_items) {
        (Counts::Bytes, _) => {
            "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} left  {wide_msg}"
        }
        (Counts::Items, 0) => "{spinner} {human_pos}  {wide_msg}",
        (Counts::Items, _) => "{bar:30} {human_pos}/{human_len} {eta} left  {wide_msg}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
