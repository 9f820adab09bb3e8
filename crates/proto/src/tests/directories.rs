//! What a client shows of directories that another changes before it hears of the client's own changes.

use super::world::{HOME, World};
use crate::{PeerId, Role};
use wayfs_types::FileId;

const ROOT: FileId = FileId::ROOT;

struct Stage {
    world: World,
    client: usize,
    other: usize,
    /// Of the client: nothing moves on it by itself.
    line: PeerId,
}

/// Two clients of the home that know directories: each is a name in one of those before it, or in the root.
fn two_with_directories<const N: usize>(directories: [(Option<usize>, &str); N]) -> (Stage, [FileId; N]) {
    let mut world = World::new();
    let (client, other) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let line = world.connect(client, HOME);
    world.connect(other, HOME);
    world.settle();
    let mut made = Vec::new();
    for (parent, name) in directories {
        made.push(world.mkdir(client, parent.map_or(ROOT, |at| made[at]), name));
    }
    world.settle();
    for host in [client, other] {
        for directory in std::iter::once(&ROOT).chain(&made) {
            world.names(host, *directory).unwrap();
        }
    }
    world.settle();
    world.stall(line, true);
    (Stage { world, client, other, line }, made.try_into().unwrap())
}

impl Stage {
    /// The home orders what the other did, and the client hears of that.
    fn hear(&mut self) {
        self.world.settle();
        self.world.step_down(self.line);
        self.world.check_tree(self.client);
    }

    /// The home hears what the client did.
    fn send(&mut self) {
        self.world.stall(self.line, false);
        self.world.settle();
        self.world.assert_agrees(self.client);
    }
}

#[test]
fn a_directory_counts_what_others_made_in_it_beside_what_is_not_sent() {
    let (mut stage, [directory]) = two_with_directories([(None, "d")]);
    stage.world.mkdir(stage.client, directory, "ours");
    stage.world.mkdir(stage.other, directory, "theirs");
    stage.hear();
    let shown = stage.world.hosts[stage.client].replica.inode(directory).unwrap().unwrap();
    assert_eq!(shown.subdirectories, 2);
    stage.send();
}

/// Neither changed a name or a directory that the other did.
#[test]
fn directories_that_two_moved_below_each_other_are_in_no_circle() {
    let tree = [(None, "p"), (None, "q"), (Some(0), "a"), (Some(1), "b"), (Some(2), "below a"), (Some(3), "below b")];
    let (mut stage, [p, q, a, _, below_a, below_b]) = two_with_directories(tree);
    stage.world.rename(stage.client, (p, "a"), (below_b, "a")).unwrap();
    stage.world.rename(stage.other, (q, "b"), (below_a, "b")).unwrap();
    stage.hear();
    let replica = &stage.world.hosts[stage.client].replica;
    let parent = |file: &FileId| Some(replica.inode(*file).unwrap().unwrap().places.first()?.parent);
    let way: Vec<FileId> = std::iter::successors(Some(a), parent).take(tree.len()).collect();
    assert_eq!(way.last(), Some(&ROOT), "{way:?}");
    stage.send();
}
