//! What is answered to whoever looks for contents.

/// Whether a version's own writer says that its bytes are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByWriter {
    Yes,
    No,
}

/// What the driver found of contents that it looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Here,
    Nowhere,
}

/// What a child says of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It has them, or somebody below it, and they are on their way or can be asked for.
    Holds,
    /// It could give them if no holder can.
    CouldGive,
}

/// Why a station takes it that nobody has contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// Who had them said no, or is away and may come back: they are missing here until the home has decided.
    Missing(ByWriter),
    /// Their client holds them no more: nobody is waited for here.
    LetGo,
}
