//! `wayfs doctor --repair` for a server's data directory. The server must not run.

use crate::durable_file;
use crate::error::StartError;
use crate::layout::{Layout, SECOND, ServedAs, VolumeFile};
use crate::tickets::Tickets;
use std::path::{Path, PathBuf};
use wayfs_control::report::{FileDamage, RepairReport, RepairState, VolumeRepair};
use wayfs_net::{IdentityError, NodeIdentity};
use wayfs_node::repair::{Consent, State};
use wayfs_proto::Role;

/// What to do where no repair helps.
const OTHER_WAYS: &str = "Restore a backup (`wayfs volume restore BACKUP --data DIR`, after moving this volume's directory away), or make a station \
                          the home (`wayfs volume promote VOLUME --at STATION`).";

/// Looks at all volumes of a server's data directory, and repairs them with consent. `tell` hears which volume it is at,
/// and how many rows of it are done.
///
/// # Errors
/// [`StartError`]: it is no server's, a server has it, or it cannot be read.
pub fn repair(data: &Path, consent: Consent, tell: &mut dyn FnMut(&str, u64)) -> Result<RepairReport, StartError> {
    if !data.join("volumes").is_dir() {
        let why = "this is no data directory of a server: name one, or a cache of mounts".to_owned();
        return Err(StartError::Unreadable { path: data.to_owned(), why });
    }
    let layout = Layout::open(data)?;
    let mut volumes = Vec::new();
    volumes.extend(key_of(&layout));
    for directory in layout.directories()? {
        volumes.push(Examined::new(directory, consent).volume(tell)?);
    }
    Ok(RepairReport { place: data.to_owned(), volumes })
}

/// The server's key, if it is damaged.
fn key_of(layout: &Layout) -> Option<VolumeRepair> {
    let path = layout.identity();
    let error = match path.exists() {
        true => NodeIdentity::load(&path, None).err().filter(|error| !matches!(error, IdentityError::Sealed { .. }))?,
        false => return None,
    };
    let lost = "members know the server by this key".to_owned();
    Some(VolumeRepair {
        volume: "(the key of this server)".to_owned(),
        role: "server".to_owned(),
        state: RepairState::Hopeless,
        files: vec![FileDamage { path, what: error.to_string(), remedy: "none".to_owned(), lost }],
        rows: 0,
        next_step: OTHER_WAYS.to_owned(),
    })
}

/// One volume's directory.
struct Examined {
    directory: PathBuf,
    consent: Consent,
    files: Vec<FileDamage>,
    state: RepairState,
}

impl Examined {
    fn new(directory: PathBuf, consent: Consent) -> Self {
        Self { directory, consent, files: Vec::new(), state: RepairState::Whole }
    }

    fn volume(mut self, tell: &mut dyn FnMut(&str, u64)) -> Result<VolumeRepair, StartError> {
        let name = self.directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(file) = self.volume_file()? else {
            let next_step = OTHER_WAYS.to_owned();
            let (state, role) = (RepairState::Hopeless, "unknown".to_owned());
            return Ok(VolumeRepair { volume: name, role, state, files: self.files, rows: 0, next_step });
        };
        let role = match file.role {
            ServedAs::Home => Role::Home,
            ServedAs::Station => Role::Station,
        };
        if role == Role::Home {
            self.tickets()?;
        }
        let rows = self.store(&file.name, role, tell)?;
        let next_step = match self.state {
            RepairState::Whole | RepairState::InUse => String::new(),
            RepairState::Damaged => "Repair it with `--yes`; what is lost by that stands above.".to_owned(),
            RepairState::Repaired => {
                "Start the server (`wayfs serve`); what others have is learnt again by itself.".to_owned()
            }
            RepairState::Hopeless => OTHER_WAYS.replace("VOLUME", &file.name),
        };
        let role = if role == Role::Home { "home" } else { "station" }.to_owned();
        Ok(VolumeRepair { volume: file.name, role, state: self.state, files: self.files, rows, next_step })
    }

    fn note(&mut self, path: &Path, what: impl ToString, (remedy, lost): (&str, &str)) {
        let (remedy, lost) = (remedy.to_owned(), lost.to_owned());
        self.files.push(FileDamage { path: path.to_owned(), what: what.to_string(), remedy, lost });
    }

    fn worse(&mut self, state: RepairState) {
        let is_worse = self.state == RepairState::Whole || state == RepairState::Hopeless;
        if is_worse {
            self.state = state;
        }
    }

    /// `volume.json`, or its second copy, which takes the place of a damaged one with consent.
    fn volume_file(&mut self) -> Result<Option<VolumeFile>, StartError> {
        let paths = [self.directory.join("volume.json"), self.directory.join(SECOND)];
        let read = |path: &PathBuf| match durable_file::read::<VolumeFile>(path) {
            Ok(Some(file)) if file.ids().is_some() => Ok(file),
            Ok(Some(_)) => Err("its identifiers are damaged".to_owned()),
            Ok(None) => Err("it is not there".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let (bad, why, good) = match (read(&paths[0]), read(&paths[1])) {
            (Ok(file), Ok(_)) => return Ok(Some(file)),
            (Err(why), Ok(file)) => (&paths[0], why, Some(file)),
            (Ok(file), Err(why)) => (&paths[1], why, Some(file)),
            (Err(why), Err(_)) => (&paths[0], why, None),
        };
        let Some(file) = good else {
            self.note(
                bad,
                why,
                ("none: its second copy is damaged, too", "what the volume is called, and what this server is in it"),
            );
            return Ok(None);
        };
        self.note(bad, why, ("it is put back from its second copy", "nothing"));
        if self.consent == Consent::Repair {
            durable_file::write(bad, &file).map_err(|source| StartError::Directory {
                what: "write",
                path: bad.clone(),
                source,
            })?;
            self.worse(RepairState::Repaired);
        } else {
            self.worse(RepairState::Damaged);
        }
        Ok(Some(file))
    }

    fn tickets(&mut self) -> Result<(), StartError> {
        let path = self.directory.join("tickets.json");
        let Err(error) = Tickets::load(&path) else { return Ok(()) };
        let lost = "tickets that nobody used yet are void: issue new ones";
        self.note(&path, error, ("it is set aside as `tickets.damaged`", lost));
        if self.consent == Consent::LookOnly {
            self.worse(RepairState::Damaged);
            return Ok(());
        }
        let aside = path.with_extension("damaged");
        std::fs::rename(&path, &aside).map_err(|source| StartError::Directory { what: "set aside", path, source })?;
        self.worse(RepairState::Repaired);
        Ok(())
    }

    /// The tables. Says how many rows of them are whole.
    fn store(&mut self, name: &str, role: Role, tell: &mut dyn FnMut(&str, u64)) -> Result<u64, StartError> {
        let store = self.directory.join("store");
        let repaired = wayfs_node::repair::repair(&store, role, self.consent, &mut |rows| tell(name, rows));
        let repaired =
            repaired.map_err(|source| StartError::Volume { name: name.to_owned(), source: source.into() })?;
        let damage = repaired.damage.into_iter();
        self.files.extend(damage.map(|d| FileDamage { path: d.path, what: d.what, remedy: d.remedy, lost: d.lost }));
        match repaired.state {
            State::Whole => {}
            State::Damaged => self.worse(RepairState::Damaged),
            State::Repaired => self.worse(RepairState::Repaired),
            State::Hopeless => self.worse(RepairState::Hopeless),
        }
        Ok(repaired.rows)
    }
}
