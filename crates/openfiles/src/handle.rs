//! What a program may do through a handle.

/// What a handle may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Write, and perhaps read.
    Write,
}

/// Whether a program may write a file by passthrough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Each write comes as a request.
    ByRequest,
    /// Into the body, if the file is empty and nobody has it open through the kernel's page cache.
    Passthrough,
}
