//! What a station has without knowing it, when the home names it.

use super::world::{HOME, World, big};
use crate::{Input, Output, Role};
use std::time::Duration;
use wayfs_types::{FileId, RecordId};

/// A home with a station, and a client of the home whose bytes go slowly.
struct Stage {
    world: World,
    station: usize,
    writer: usize,
    file: FileId,
}

fn stage() -> Stage {
    let mut world = World::new();
    let (station, writer) = (world.add(Role::Station, "s@s"), world.add(Role::Client, "ann@a"));
    world.connect(station, HOME);
    world.settle();
    let session = world.connect(writer, HOME);
    world.pass(Duration::from_secs(2));
    world.hold_pushes(session, true);
    let file = world.create(writer, FileId::ROOT, "f");
    world.settle();
    Stage { world, station, writer, file }
}

impl Stage {
    /// The station's disk has the bytes, by a push that a crash made it forget.
    fn pushed_before(&mut self) {
        self.world.hosts[self.station].chunks.insert(big("f").root().unwrap());
    }

    fn store(&mut self) -> RecordId {
        let version = self.world.store(self.writer, self.file, big("f"));
        self.world.settle();
        version
    }

    fn at_station(&self) -> (u64, u64) {
        let at_station = self.world.hosts[self.station].replica.ledger().unwrap().at_station.unwrap();
        (at_station.versions, at_station.bytes)
    }

    fn keeps_any(&self) -> bool {
        let page = self.world.hosts[self.station].replica.contents_in_use(None, 0).unwrap();
        page.contents.iter().any(|kept| kept.owed)
    }

    fn home_has(&self) -> bool {
        self.world.hosts[HOME].chunks.contains(&big("f").root().unwrap())
    }
}

/// Found by seed 136051711 of the defaults: the writer's disk is lost, and the station said that nothing was at it only.
#[test]
fn a_station_answers_for_what_it_has_of_what_the_home_names() {
    let mut stage = stage();
    stage.pushed_before();
    let version = stage.store();
    assert!(!stage.home_has());
    assert_eq!(stage.at_station(), (1, 1_000_000));
    stage.world.destroy(stage.writer);
    stage.world.pass(Duration::from_secs(2));
    assert_eq!(stage.at_station(), (1, 1_000_000));
    let holders = |stage: &Stage| {
        let missing = stage.world.hosts[HOME].replica.contents_missing(None, 10).unwrap();
        missing.into_iter().flat_map(|one| one.holders).map(|(holder, _)| holder).collect::<Vec<_>>()
    };
    assert!(holders(&stage).contains(&stage.world.hosts[stage.station].origin), "the home knows whom to ask");
    stage.world.input(stage.station, Input::Propagate { file: stage.file, version });
    stage.world.settle();
    assert!(stage.home_has());
    assert_eq!(stage.at_station(), (0, 0));
}

/// Seed 175006832: a client came to a station and pushed what it had; the push went past its word that it has it, and then it was gone.
#[test]
fn a_station_answers_for_what_came_after_it_had_looked_for_it() {
    let mut stage = stage();
    stage.store();
    assert_eq!(stage.at_station(), (0, 0));
    stage.pushed_before();
    stage.world.input(stage.station, Input::ContentsHere { tops: vec![big("f").top().unwrap()] });
    assert_eq!(stage.at_station(), (1, 1_000_000));
    stage.world.destroy(stage.writer);
    stage.world.pass(Duration::from_secs(2));
    let missing = stage.world.hosts[HOME].replica.contents_missing(None, 10).unwrap();
    let holders: Vec<_> = missing.into_iter().flat_map(|one| one.holders).map(|(holder, _)| holder).collect();
    assert!(holders.contains(&stage.world.hosts[stage.station].origin), "the home knows whom to ask");
}

#[test]
fn what_came_late_of_a_version_that_was_replaced_is_not_owed() {
    let mut stage = stage();
    stage.store();
    stage.world.store(stage.writer, stage.file, super::world::small("new"));
    stage.world.settle();
    stage.pushed_before();
    stage.world.input(stage.station, Input::ContentsHere { tops: vec![big("f").top().unwrap()] });
    assert_eq!(stage.at_station(), (0, 0));
}

#[test]
fn its_policy_hears_of_what_it_found_of_what_the_home_names() {
    let mut stage = stage();
    stage.pushed_before();
    let version = stage.store();
    let Stage { world, station, file, .. } = &stage;
    let host = &world.hosts[*station];
    let owed = host.events.iter().filter(|output| matches!(output, Output::Owed { .. }));
    let news: Vec<_> = owed.filter_map(|output| host.replica.propagation_news(output).unwrap()).collect();
    assert_eq!(news, [wayfs_policy::Input::Written { file: *file, version, age: Duration::ZERO }]);
}

#[test]
fn a_station_answers_for_nothing_that_it_has_not() {
    let mut stage = stage();
    stage.store();
    assert_eq!(stage.at_station(), (0, 0));
    assert!(!stage.keeps_any());
}

/// The answer to what was looked for is lost with a crash: everything that may be here is looked for again.
#[test]
fn a_restart_looks_again_for_what_was_named_before_it() {
    let mut stage = stage();
    stage.store();
    assert_eq!(stage.at_station(), (0, 0));
    stage.pushed_before();
    stage.world.crash(stage.station, 100);
    stage.world.input(stage.station, Input::Tick);
    stage.world.settle();
    assert_eq!(stage.at_station(), (1, 1_000_000));
}

#[test]
fn more_than_is_looked_for_together_is_looked_for_after_all() {
    let mut stage = stage();
    let upper = stage.world.line_of(stage.station);
    stage.world.close(upper);
    for number in 0..600 {
        let text = format!("f{number}");
        let file = stage.world.create(stage.writer, FileId::ROOT, &text);
        stage.world.store(stage.writer, file, big(&text));
        stage.world.hosts[stage.station].chunks.insert(big(&text).root().unwrap());
    }
    stage.world.settle();
    stage.world.connect(stage.station, HOME);
    stage.world.pass(Duration::from_secs(2));
    assert_eq!(stage.at_station(), (600, 600_000_000));
}
