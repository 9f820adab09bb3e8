//! What was written, what was said of it, and which disks have it if that is true.

use super::amounts::{Amounts, Lacking};
use super::disk::{Disk, HOME, Moment};
use super::piece::Number;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// One of these disks has the piece: who said so did not say which.
#[derive(Debug, Clone)]
struct OneOf {
    disks: BTreeSet<Disk>,
    said: Moment,
}

/// A content that a program wrote.
#[derive(Debug)]
pub(super) struct Piece {
    /// Bytes.
    pub(super) len: usize,
    /// Where it was written, or renamed to, from the volume's root.
    pub(super) path: String,
    /// The disk whose daemon took it, as long as that disk knows of it.
    pub(super) writer: Option<Disk>,
    /// When.
    pub(super) written: Moment,
    /// The program was told of an error: it may be there, whole, in part, or not at all.
    pub(super) is_failed: bool,
    /// Somebody removed it, or tried to.
    pub(super) is_removed: bool,
    /// When the home was first said to know its name.
    pub(super) visible: Option<Moment>,
    /// A disk was ever said to have it.
    pub(super) was_held: bool,
    /// The pieces that were at its path before.
    pub(super) replaces: BTreeSet<Number>,
    /// Disks that had a byte changed since it was written: what their daemons say of it afterwards is no evidence, since nobody
    /// notices a damaged chunk before it is read.
    flipped: BTreeSet<Disk>,
    /// Disks that were full when the home had been said to have it: a clean copy gives way there, and what is said of it afterwards
    /// (that all which was written there is durable) is not that this disk still has it.
    given_way: BTreeSet<Disk>,
    /// The home's disk was ever said to have it.
    was_stable: bool,
    /// Mounts that said they have all of it.
    pub(super) cached: BTreeSet<Disk>,
    holders: BTreeMap<Disk, Moment>,
    one_of: Vec<OneOf>,
}

impl Piece {
    /// Whether a disk that is not lost has it, by what was claimed.
    pub(super) fn is_held(&self) -> bool {
        !self.holders.is_empty() || !self.one_of.is_empty()
    }

    /// Whether this disk has it, by what was claimed.
    pub(super) fn is_held_by(&self, disk: Disk) -> bool {
        self.holders.contains_key(&disk)
    }

    /// Who has it, in words.
    pub(super) fn holders(&self) -> String {
        let certain = self.holders.keys().map(ToString::to_string);
        let vague = self.one_of.iter().map(|one_of| {
            let names: Vec<String> = one_of.disks.iter().map(ToString::to_string).collect();
            format!("one of {}", names.join("/"))
        });
        certain.chain(vague).collect::<Vec<_>>().join(", ")
    }
}

/// What happened, and what is owed.
#[derive(Debug, Default)]
pub(super) struct Diary {
    pieces: BTreeMap<Number, Piece>,
    now: u64,
    /// Where all lines go at once: whoever looks into a world that hangs has nothing else.
    file: Option<File>,
    begun: Option<Instant>,
    shadowed: BTreeSet<Number>,
    /// When a station was lost of which the home has not been told.
    silent: Option<Moment>,
    amounts: Amounts,
    claims: BTreeMap<&'static str, u64>,
}

impl Diary {
    /// Writes a line; the moment is later than all before.
    pub(super) fn note(&mut self, line: String) -> Moment {
        self.now += 1;
        if let Some(file) = &mut self.file {
            let seconds = self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
            // A diary that cannot be written is no reason to stop.
            let _ = writeln!(file, "{seconds:8.2} {:6} {line}", self.now);
        }
        Moment(self.now)
    }

    /// Keeps all lines in a file from now on.
    pub(super) fn keep(&mut self, path: &Path) {
        self.file = File::create(path).ok();
        self.begun = Some(Instant::now());
    }

    /// A piece that is held cannot be read, since a later version whose bytes are lost is before it.
    pub(super) fn note_shadowed(&mut self, number: Number) {
        if self.shadowed.insert(number) {
            self.note(format!("{number} is behind a version whose bytes are lost"));
        }
    }

    /// How many of those there were.
    pub(super) fn shadowed(&self) -> u64 {
        self.shadowed.len() as u64
    }

    /// How often each kind of claim was made.
    pub(super) const fn claims(&self) -> &BTreeMap<&'static str, u64> {
        &self.claims
    }

    /// A new piece is about to be written over what is at its path.
    pub(super) fn write(&mut self, writer: Disk, path: &str, len: usize, seen: Option<Number>) -> Number {
        let number = self.pieces.len() as Number + 1;
        let written = self.note(format!("write {number} ({len} bytes) to {path} at {writer}"));
        let replaces = self.at(path).chain(seen).collect();
        self.pieces.insert(
            number,
            Piece {
                len,
                path: path.to_owned(),
                writer: Some(writer),
                written,
                is_failed: false,
                is_removed: false,
                visible: None,
                was_held: false,
                replaces,
                flipped: BTreeSet::new(),
                given_way: BTreeSet::new(),
                was_stable: false,
                cached: BTreeSet::new(),
                holders: BTreeMap::new(),
                one_of: Vec::new(),
            },
        );
        number
    }

    /// The pieces that may be at a path: all but those that are known to be replaced or removed.
    pub(super) fn at(&self, path: &str) -> impl Iterator<Item = Number> + use<> {
        let replaced: BTreeSet<Number> = self.pieces.values().flat_map(|piece| piece.replaces.clone()).collect();
        let is_there = |(number, piece): &(&Number, &Piece)| {
            piece.path == path && !piece.is_removed && !replaced.contains(*number)
        };
        self.pieces.iter().filter(is_there).map(|(number, _)| *number).collect::<Vec<_>>().into_iter()
    }

    /// A piece.
    pub(super) fn piece(&self, number: Number) -> Option<&Piece> {
        self.pieces.get(&number)
    }

    /// A piece.
    pub(super) fn piece_mut(&mut self, number: Number) -> Option<&mut Piece> {
        self.pieces.get_mut(&number)
    }

    /// All pieces.
    pub(super) const fn pieces(&self) -> &BTreeMap<Number, Piece> {
        &self.pieces
    }

    /// A name is removed: what may be at it need not be anywhere any more.
    pub(super) fn remove(&mut self, path: &str, seen: Option<Number>) {
        for number in self.at(path).chain(seen) {
            if let Some(piece) = self.pieces.get_mut(&number) {
                piece.is_removed = true;
            }
        }
    }

    /// What is at a path goes to another.
    pub(super) fn rename(&mut self, from: &str, to: &str, seen: Option<Number>) {
        for number in self.at(from).chain(seen) {
            if let Some(piece) = self.pieces.get_mut(&number) {
                to.clone_into(&mut piece.path);
            }
        }
    }

    /// What a daemon takes for its own: pieces that programs wrote there without an error, and that it did not lose.
    pub(super) fn written_at(&self, writer: Disk, before: Moment) -> Vec<Number> {
        let own = |piece: &Piece| piece.writer == Some(writer) && !piece.is_failed && piece.written < before;
        self.pieces.iter().filter(|(_, piece)| own(piece)).map(|(number, _)| *number).collect()
    }

    /// A disk was said to have a piece whole. `kind` is what was said, and how.
    pub(super) fn claim_holder(&mut self, number: Number, disk: Disk, kind: &'static str) {
        self.note(format!("claim: {disk} has {number} ({kind})"));
        let said = Moment(self.now);
        if let Some(piece) = self.pieces.get_mut(&number) {
            *self.claims.entry(kind).or_default() += 1;
            piece.was_held = true;
            piece.was_stable |= disk == HOME;
            if !piece.flipped.contains(&disk) && !piece.given_way.contains(&disk) {
                piece.holders.entry(disk).or_insert(said);
            }
        }
    }

    /// Some disk of these was said to have a piece whole.
    pub(super) fn claim_one_of(&mut self, number: Number, disks: &BTreeSet<Disk>, kind: &'static str) {
        let names: Vec<String> = disks.iter().map(ToString::to_string).collect();
        self.note(format!("claim: one of {} has {number} ({kind})", names.join("/")));
        let said = Moment(self.now);
        let silent = self.silent;
        if let Some(piece) = self.pieces.get_mut(&number) {
            *self.claims.entry(kind).or_default() += 1;
            piece.was_held = true;
            let mut disks = disks.clone();
            // A station that is silent may have it, for all that anybody knows. Its writer keeps it until it is stable.
            if silent.is_some_and(|silent| piece.written < silent) {
                disks.extend(piece.writer);
            }
            let is_new = piece.one_of.iter().all(|known| !known.disks.is_subset(&disks));
            if is_new && piece.flipped.is_disjoint(&disks) {
                piece.one_of.push(OneOf { disks, said });
            }
        }
    }

    /// One of some disks was said to have all of these whole, but for so much.
    pub(super) fn claim_all_but(
        &mut self,
        numbers: &[Number],
        disks: &BTreeSet<Disk>,
        lacking: Lacking,
        kind: &'static str,
    ) {
        let said = self.note(format!("claim: all but {lacking:?} of {} contents ({kind})", numbers.len()));
        // What may be at a silent station is at its writer, and so not counted as lacking.
        let silent = self.silent.filter(|_| disks.iter().any(|disk| *disk != HOME));
        let is_sound = |number: &Number| {
            let piece = self.pieces.get(number);
            piece.is_some_and(|piece| {
                piece.flipped.is_disjoint(disks) && silent.is_none_or(|silent| piece.written > silent)
            })
        };
        let numbers = numbers.iter().copied().filter(is_sound).collect();
        *self.claims.entry(kind).or_default() += 1;
        self.amounts.claim(numbers, disks.clone(), lacking, (said, kind));
    }

    /// What was said to lack, by amount.
    pub(super) const fn amounts(&self) -> &Amounts {
        &self.amounts
    }

    /// The home was said to know a piece's record.
    pub(super) fn claim_visible(&mut self, number: Number, kind: &'static str) {
        let said = Moment(self.now);
        if let Some(piece) = self.pieces.get_mut(&number) {
            *self.claims.entry(kind).or_default() += 1;
            piece.visible = piece.visible.or(Some(said));
        }
    }

    /// A mount says that it has all bytes of a piece, which it may throw away when it needs the room.
    pub(super) fn claim_cached(&mut self, number: Number, disk: Disk) {
        if let Some(piece) = self.pieces.get_mut(&number) {
            *self.claims.entry("info: cached here").or_default() += 1;
            piece.cached.insert(disk);
        }
    }

    /// A disk is lost for ever.
    pub(super) fn lose(&mut self, disk: Disk) {
        self.put_back(disk, Moment(0));
    }

    /// A station's disk is lost for ever, and the station is away for all that the others know.
    pub(super) fn lose_station(&mut self, disk: Disk) {
        self.lose(disk);
        self.silent = Some(self.note(format!("{disk} is silent")));
    }

    /// The home was told which stations are gone.
    pub(super) const fn break_silence(&mut self) {
        self.silent = None;
    }

    /// A disk has only what it had at a moment.
    pub(super) fn put_back(&mut self, disk: Disk, to: Moment) {
        self.amounts.put_back(disk, to);
        for piece in self.pieces.values_mut() {
            if piece.writer == Some(disk) && piece.written > to {
                piece.writer = None;
            }
            piece.cached.remove(&disk);
            piece.holders.retain(|holder, said| *holder != disk || *said <= to);
            piece.one_of.retain(|one_of| !one_of.disks.contains(&disk) || one_of.said <= to);
        }
    }

    /// The home has only what it had at a moment, and knows of no more.
    pub(super) fn put_home_back(&mut self, home: Disk, to: Moment) {
        self.put_back(home, to);
        for piece in self.pieces.values_mut() {
            piece.visible = piece.visible.filter(|said| *said <= to);
        }
    }

    /// What a disk has is damaged somewhere; its daemon still knows what it wrote.
    pub(super) fn lose_holder(&mut self, disk: Disk) {
        self.amounts.put_back(disk, Moment(0));
        for piece in self.pieces.values_mut() {
            piece.cached.remove(&disk);
            piece.flipped.insert(disk);
            piece.holders.remove(&disk);
            piece.one_of.retain(|one_of| !one_of.disks.contains(&disk));
        }
    }

    /// A disk is full: what is at the home, too, may give way there.
    pub(super) fn fill(&mut self, disk: Disk) {
        for piece in self.pieces.values_mut().filter(|piece| piece.was_stable && disk != HOME) {
            piece.cached.remove(&disk);
            piece.holders.remove(&disk);
            piece.given_way.insert(disk);
        }
    }

    /// A daemon was killed, or its machine lost power: it need not know of what was not durable there.
    pub(super) fn crash(&mut self, disk: Disk) {
        self.crash_before(disk, Moment(self.now));
    }

    /// The same of what was written before a moment, and not durable by then.
    pub(super) fn crash_before(&mut self, disk: Disk, moment: Moment) {
        for piece in self.pieces.values_mut() {
            let is_durable = piece.holders.get(&disk).is_some_and(|said| *said <= moment);
            if piece.writer == Some(disk) && piece.written <= moment && !is_durable {
                piece.writer = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Disk = Disk::new(1);
    const B: Disk = Disk::new(2);

    #[test]
    fn a_piece_is_owed_while_a_disk_that_was_said_to_have_it_is_left() {
        let mut diary = Diary::default();
        let number = diary.write(A, "f", 100, None);
        diary.claim_holder(number, A, "fsync");
        diary.claim_one_of(number, &BTreeSet::from([B]), "status");
        diary.lose(A);
        assert!(diary.piece(number).unwrap().is_held());
        diary.lose(B);
        assert!(!diary.piece(number).unwrap().is_held());
    }

    #[test]
    fn what_a_silent_station_may_have_is_at_its_writer() {
        let mut diary = Diary::default();
        let old = diary.write(A, "f", 100, None);
        diary.lose_station(B);
        let new = diary.write(A, "g", 100, None);
        for number in [old, new] {
            diary.claim_one_of(number, &BTreeSet::from([HOME]), "status");
        }
        diary.lose(A);
        let is_held = |number| diary.piece(number).unwrap().is_held();
        assert_eq!((is_held(old), is_held(new)), (false, true), "the station that is lost cannot have what came later");
    }

    #[test]
    fn an_older_copy_has_what_was_claimed_before_it() {
        let mut diary = Diary::default();
        let (old, new) = (diary.write(A, "f", 100, None), diary.write(A, "g", 100, None));
        diary.claim_holder(old, B, "info");
        let copied = diary.note("copy".to_owned());
        diary.claim_holder(new, B, "info");
        diary.put_back(B, copied);
        assert!(diary.piece(old).unwrap().is_held());
        assert!(!diary.piece(new).unwrap().is_held());
    }

    #[test]
    fn a_home_that_was_put_back_need_not_know_what_was_visible_later() {
        let mut diary = Diary::default();
        let (old, new) = (diary.write(A, "f", 100, None), diary.write(A, "g", 100, None));
        diary.claim_visible(old, "info");
        let copied = diary.note("copy".to_owned());
        diary.claim_holder(old, B, "info");
        diary.claim_visible(new, "info");
        diary.put_home_back(B, copied);
        let is_visible = |number| diary.piece(number).unwrap().visible.is_some();
        assert_eq!((is_visible(old), is_visible(new)), (true, false));
        assert!(!diary.piece(old).unwrap().is_held(), "that was said after the copy was made");
    }

    #[test]
    fn a_crash_takes_what_was_not_durable_from_its_writer() {
        let mut diary = Diary::default();
        let (durable, closed) = (diary.write(A, "f", 100, None), diary.write(A, "g", 100, None));
        diary.claim_holder(durable, A, "fsync");
        diary.crash(A);
        let now = diary.note("later".to_owned());
        assert_eq!(diary.written_at(A, now), [durable]);
        assert!(diary.piece(closed).unwrap().writer.is_none());
    }

    #[test]
    fn what_a_damaged_disk_says_of_older_contents_counts_for_nothing() {
        let mut diary = Diary::default();
        let old = diary.write(A, "f", 100, None);
        diary.claim_holder(old, A, "fsync");
        diary.lose_holder(A);
        let new = diary.write(A, "g", 100, None);
        for number in [old, new] {
            diary.claim_holder(number, A, "sync");
            diary.claim_one_of(number, &BTreeSet::from([A, B]), "sync");
        }
        assert!(!diary.piece(old).unwrap().is_held());
        assert!(diary.piece(new).unwrap().is_held());
        diary.claim_holder(old, B, "info");
        assert!(diary.piece(old).unwrap().is_held(), "another disk has it");
    }

    #[test]
    fn a_clean_copy_gives_way_on_a_full_disk_and_nothing_else_does() {
        let mut diary = Diary::default();
        let (stable, not_yet) = (diary.write(A, "f", 100, None), diary.write(A, "g", 100, None));
        for number in [stable, not_yet] {
            diary.claim_holder(number, A, "fsync");
        }
        diary.claim_holder(stable, HOME, "info");
        diary.fill(A);
        diary.lose_holder(HOME);
        diary.claim_holder(stable, A, "sync");
        assert!(
            !diary.piece(stable).unwrap().is_held(),
            "the home's copy is damaged, and the writer's may have gone before"
        );
        assert!(diary.piece(not_yet).unwrap().is_held());
    }

    #[test]
    fn what_is_written_over_is_replaced() {
        let mut diary = Diary::default();
        let first = diary.write(A, "f", 100, None);
        let second = diary.write(B, "f", 100, None);
        assert_eq!(diary.piece(second).unwrap().replaces, BTreeSet::from([first]));
        assert_eq!(diary.at("f").collect::<Vec<_>>(), [second]);
    }
}
