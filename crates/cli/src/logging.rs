//! Where log lines go: standard error, which for a daemon in the background is its log file.

use tracing_subscriber::EnvFilter;

/// Starts logging. `WAYFS_LOG` (as `RUST_LOG` elsewhere) overrides the level of the configuration.
pub(crate) fn start(level: &str) {
    let filter = EnvFilter::try_from_env("WAYFS_LOG")
        .or_else(|_| EnvFilter::try_new(level))
        .unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).finish();
    // Already started: a test in the same process did.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
