//! Repairs a replica's store that is damaged on disk. The daemon whose store it is must not run.

use std::path::{Path, PathBuf};
use wayfs_proto::Role;
use wayfs_store::{DataDir, DiskMetaStore, MetaConfig, OpenError, Remedy};

/// Whether anything is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Nothing is: what a repair would do is said.
    LookOnly,
    /// What is damaged is repaired, and what that loses is lost.
    Repair,
}

/// A damaged part of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Which file or directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// What a repair does with it.
    pub remedy: String,
    /// What is lost by that.
    pub lost: String,
}

/// How a store is after an examination or a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Whole.
    Whole,
    /// Damaged; a repair helps.
    Damaged,
    /// Was damaged, and is repaired.
    Repaired,
    /// Damaged, and no repair helps: a home's tables cannot be learnt from anywhere at once.
    Hopeless,
}

/// What was found, and done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// How the store is now.
    pub state: State,
    /// What was damaged.
    pub damage: Vec<Damage>,
    /// Rows of its tables that are whole.
    pub rows: u64,
}

/// Looks at the store in a directory, and repairs it with consent. `tell` hears how many rows are done.
///
/// # Errors
/// [`OpenError`]: the directory is in use, of another format, or cannot be read.
pub fn repair(
    directory: &Path,
    role: Role,
    consent: Consent,
    tell: &mut dyn FnMut(u64),
) -> Result<Repaired, OpenError> {
    let data = DataDir::open(directory, kind(role))?;
    let found = wayfs_store::examine(&data, tell)?;
    let (remedy, lost) = (remedy_text(found.remedy), lost_text(found.remedy, role));
    let damage = |file: wayfs_store::DamagedFile| Damage {
        path: file.path,
        what: file.what,
        remedy: remedy.to_owned(),
        lost: lost.clone(),
    };
    let mut damage: Vec<Damage> = found.damaged.into_iter().map(damage).collect();
    // What stands beside the first file goes the same way; its loss is told once.
    damage.iter_mut().skip(1).for_each(|damage| damage.lost.clear());
    let state = match (found.remedy, role, consent) {
        (Remedy::None, ..) => State::Whole,
        (Remedy::Empty, Role::Home, _) => State::Hopeless,
        (_, _, Consent::LookOnly) => State::Damaged,
        (Remedy::Cut { .. }, _, Consent::Repair) => {
            drop(DiskMetaStore::open_accepting_loss(&data, MetaConfig::default())?);
            State::Repaired
        }
        (Remedy::Empty, Role::Station | Role::Client, Consent::Repair) => {
            wayfs_store::set_tables_aside(&data)?;
            State::Repaired
        }
    };
    Ok(Repaired { state, damage, rows: found.rows })
}

fn kind(role: Role) -> wayfs_store::Role {
    match role {
        Role::Client => wayfs_store::Role::Client,
        Role::Home | Role::Station => wayfs_store::Role::Server,
    }
}

fn remedy_text(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::None => "",
        Remedy::Cut { .. } => "the metadata goes on from before the damage; what follows it is kept in `damaged/`",
        Remedy::Empty => "the metadata is set aside in `damaged/` and begun anew; contents stay",
    }
}

fn lost_text(remedy: Remedy, role: Role) -> String {
    let batches = match remedy {
        Remedy::None => return String::new(),
        Remedy::Empty => "all metadata".to_owned(),
        Remedy::Cut { lost_batches: Some(1) } => "the last batch of updates".to_owned(),
        Remedy::Cut { lost_batches: Some(lost) } => format!("the last {lost} batches of updates"),
        Remedy::Cut { lost_batches: None } => "the last updates, nobody knows how many".to_owned(),
    };
    let rest = match role {
        Role::Home => "stations and clients that have them write them again; what nobody else has is lost",
        Role::Station => "the home and the clients tell them again; what only this station had is lost",
        Role::Client => "what of it no station has is lost; the rest is fetched again",
    };
    format!("{batches}: {rest}")
}
