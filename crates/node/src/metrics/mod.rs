//! Counters for Prometheus, and the small responder that serves them on loopback.

mod http;
mod number;
mod text;
mod volume;

pub use http::{MetricsError, MetricsServer};
pub use number::{Counter, Histogram, Stopwatch};
pub use text::Text;
pub use volume::{VolumeMetrics, render};
