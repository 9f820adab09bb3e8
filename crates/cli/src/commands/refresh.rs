//! `wayfs refresh`: exit code 0 says that what was visible before is seen here now.

use super::Context;
use crate::args::RefreshArgs;
use crate::failure::Failure;
use wayfs_control::{Command, DaemonKind};

pub(crate) fn run(context: &Context, args: &RefreshArgs) -> Result<(), Failure> {
    let kind = Some(DaemonKind::Mount);
    let timeout_ms = args.timeout.saturating_mul(1000);
    let command = |path| Command::Refresh { path, timeout_ms };
    match &args.path {
        Some(path) => {
            let inside = |inside: std::path::PathBuf| Some(inside).filter(|path| !path.as_os_str().is_empty());
            context.report_on(kind, path, |path| command(inside(path)))
        }
        None => context.report(kind, &command(None)),
    }
}
