//! Procedures of the three programs.

/// A procedure of a program, as it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Procedure {
    /// Number of the program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Number of the procedure.
    pub number: u32,
}

/// What a call is about. Retry policies keep times by kind, and what may be done twice depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of RFC 1813, spelt out")]
pub enum Kind {
    Null,
    GetAttributes,
    SetAttributes,
    Lookup,
    Access,
    ReadLink,
    Read,
    Write,
    Create,
    MakeDirectory,
    Symlink,
    MakeNode,
    Remove,
    RemoveDirectory,
    Rename,
    Link,
    ReadDirectory,
    ReadDirectoryPlus,
    FileSystemStatistics,
    FileSystemInfo,
    PathConfiguration,
    Commit,
    /// Asking the port mapper for a port.
    Port,
    /// Asking for the root of an export.
    Mount,
    /// Asking for the list of exports.
    Exports,
}

/// The program NFS.
pub(crate) const NFS: u32 = 100_003;

impl Kind {
    /// The procedures of NFS version 3, in the order of their numbers.
    pub const NFS: [Self; 22] = [
        Self::Null,
        Self::GetAttributes,
        Self::SetAttributes,
        Self::Lookup,
        Self::Access,
        Self::ReadLink,
        Self::Read,
        Self::Write,
        Self::Create,
        Self::MakeDirectory,
        Self::Symlink,
        Self::MakeNode,
        Self::Remove,
        Self::RemoveDirectory,
        Self::Rename,
        Self::Link,
        Self::ReadDirectory,
        Self::ReadDirectoryPlus,
        Self::FileSystemStatistics,
        Self::FileSystemInfo,
        Self::PathConfiguration,
        Self::Commit,
    ];

    /// What a call of a procedure is about; `None`: nobody here calls it.
    pub fn of(procedure: Procedure) -> Option<Self> {
        let all = Self::NFS.iter().chain(&[Self::Port, Self::Mount, Self::Exports]);
        all.copied().find(|kind| kind.procedure() == procedure)
    }

    /// How it is called.
    pub const fn procedure(self) -> Procedure {
        match self {
            Self::Port => Procedure { program: 100_000, version: 2, number: 3 },
            Self::Mount => Procedure { program: 100_005, version: 3, number: 1 },
            Self::Exports => Procedure { program: 100_005, version: 3, number: 5 },
            nfs => Procedure { program: NFS, version: 3, number: nfs as u32 },
        }
    }

    /// Whether doing it once more changes nothing beyond what once does. A write is: the same bytes to the same place.
    pub(crate) const fn is_idempotent(self) -> bool {
        !matches!(
            self,
            Self::SetAttributes
                | Self::Create
                | Self::MakeDirectory
                | Self::Symlink
                | Self::MakeNode
                | Self::Remove
                | Self::RemoveDirectory
                | Self::Rename
                | Self::Link
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_protocol() {
        for (kind, number) in [
            (Kind::Null, 0),
            (Kind::Lookup, 3),
            (Kind::Read, 6),
            (Kind::Write, 7),
            (Kind::ReadDirectoryPlus, 17),
            (Kind::Commit, 21),
        ] {
            assert_eq!(kind.procedure(), Procedure { program: 100_003, version: 3, number });
        }
    }

    #[test]
    fn what_is_called_is_known_by_its_numbers() {
        for (number, kind) in Kind::NFS.into_iter().enumerate() {
            let procedure = Procedure { program: NFS, version: 3, number: u32::try_from(number).unwrap() };
            assert_eq!((kind.procedure(), Kind::of(procedure)), (procedure, Some(kind)));
        }
        assert_eq!(Kind::of(Kind::Exports.procedure()), Some(Kind::Exports));
        assert_eq!(Kind::of(Procedure { program: NFS, version: 3, number: 22 }), None);
        assert_eq!(Kind::of(Procedure { program: NFS, version: 2, number: 1 }), None);
    }
}
