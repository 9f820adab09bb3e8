//! Random changes, made from raw numbers.

use super::{World, name, text};
use bytes::Bytes;
use proptest::prelude::*;
use wayfs_tree::{inode, names_of};
use wayfs_types::request::{Change, RenameTarget, XattrPresence};
use wayfs_types::{AttrChange, FileId, Image, Inode, Key, Kind, WallTime, XattrName};

/// Few names, so that people meet.
pub const NAMES: [&str; 4] = ["a", "b.txt", "c", "d"];

/// Raw numbers from which a step is made, whatever the tree looks like.
#[derive(Debug, Clone, Copy)]
pub struct Dice {
    pub client: usize,
    pub action: u8,
    pub picks: [usize; 4],
}

pub fn dice(clients: usize) -> impl Strategy<Value = Dice> {
    (0..clients, 0u8..24, any::<[u8; 4]>()).prop_map(|(client, action, picks)| Dice {
        client,
        action,
        picks: picks.map(usize::from),
    })
}

/// Living files of a client's view: directories and others, these with all of their names.
fn living(world: &World, client: usize) -> (Vec<FileId>, Vec<(FileId, Inode)>) {
    let (mut directories, mut files) = (Vec::new(), Vec::new());
    for (key, image) in world.clients[client].view.iter() {
        let (Key::Inode(file), Image::Inode(inode)) = (key, image) else { continue };
        match () {
            () if inode.is_removed() => {}
            () if inode.is_directory() => directories.push(*file),
            () => {
                let places = names_of(&world.clients[client].view, *file, inode).unwrap();
                files.push((*file, Inode { places, ..(**inode).clone() }));
            }
        }
    }
    (directories, files)
}

fn pick<T>(from: &[T], at: usize) -> Option<&T> {
    (!from.is_empty()).then(|| &from[at % from.len()])
}

pub fn change(world: &World, dice: &Dice) -> Option<Change> {
    let (directories, files) = living(world, dice.client);
    let [p, q, r, s] = dice.picks;
    let parent = *pick(&directories, p)?;
    let pick_name = |at: usize| name(NAMES[at % NAMES.len()]);
    let (uid, gid) = (7, 7);
    let mtime = WallTime::from_nanos(world.clock + 5);
    Some(match dice.action {
        0 => Change::Create {
            parent,
            name: pick_name(q),
            kind: Kind::Symlink(Bytes::from(vec![b't'; 1 + r % 2])),
            mode: 0o777,
            uid,
            gid,
        },
        1..=3 => Change::Create { parent, name: pick_name(q), kind: Kind::File, mode: 0o644, uid, gid },
        4 | 5 => Change::Mkdir { parent, name: pick_name(q), mode: 0o755, uid, gid },
        6 => Change::Link { file: pick(&files, r)?.0, parent, name: pick_name(q) },
        7 | 8 => {
            let place = pick(&pick(&files, q)?.1.places, r)?.clone();
            Change::Unlink { parent: place.parent, name: place.name }
        }
        9 | 10 => {
            let inode = inode(&world.clients[dice.client].view, parent).unwrap()?;
            let place = inode.places.first()?.clone();
            Change::Rmdir { parent: place.parent, name: place.name }
        }
        11..=13 => {
            let from = match r % 3 {
                0 => inode(&world.clients[dice.client].view, *pick(&directories, q)?).unwrap()?.places.first()?.clone(),
                _ => pick(&pick(&files, q)?.1.places, r)?.clone(),
            };
            let (from_parent, from_name) = (from.parent, from.name);
            // One in three changes places with whatever has the name, if something has.
            let target = if p % 3 == 1 { RenameTarget::Exchange } else { RenameTarget::Replace };
            Change::Rename { from_parent, from_name, to_parent: parent, to_name: pick_name(s), target }
        }
        // Many names for one file.
        22 | 23 => Change::Link { file: files.first()?.0, parent, name: pick_name(q) },
        14 => {
            let file = pick(&files, q)?.0;
            Change::SetAttr { file, change: AttrChange { mode: Some(0o600 + (r % 3) as u16), ..Default::default() } }
        }
        15 => {
            let value = (s % 3 > 0).then(|| Bytes::from(vec![b'v'; s % 3]));
            let (name, presence) = (XattrName::new("user.x").unwrap(), XattrPresence::Any);
            Change::SetXattr { file: pick(&files, q)?.0, name, value, presence }
        }
        _ => {
            let (file, inode) = pick(&files, q)?;
            // Now and then the same words as somebody else's.
            let words = if r % 4 == 0 { format!("same {}", s % 2) } else { format!("{} {}", dice.client, world.clock) };
            Change::Store { file: *file, base: inode.version, content: text(&words), mtime }
        }
    })
}
