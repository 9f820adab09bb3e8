use super::*;
use wayfs_types::Admitted;

const VOLUME: VolumeId = VolumeId::from_bytes([7; 16]);

fn key() -> NodeIdentity {
    NodeIdentity::generate().unwrap()
}

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

fn origin(number: u32, node: NodeId, admitted: Admitted) -> (OriginId, Origin) {
    let origin = Origin::admitted(admitted, node, format!("m{number}@test"));
    (OriginId::new(number).unwrap(), origin)
}

/// A home with a station, and a client that joined with the home's ticket.
struct World {
    _dir: tempfile::TempDir,
    home_key: NodeIdentity,
    station_key: NodeIdentity,
    home: Directory,
    station: Directory,
    client: Directory,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (home_key, station_key) = (key(), key());
        let open = |name: &str, own: &NodeIdentity| {
            Directory::load(&dir.path().join(name), VOLUME, own.clone(), home_key.id())
        };
        let (home, station, client) = (open("home", &home_key), open("station", &station_key), open("client", &key()));
        let world = Self { _dir: dir, home_key, station_key, home, station, client };
        world.members(&[(2, Admitted::Station)]);
        world
    }

    fn members(&self, stations: &[(u32, Admitted)]) {
        let mut origins = vec![origin(1, self.home_key.id(), Admitted::Home)];
        origins.extend(stations.iter().map(|(number, admitted)| origin(*number, self.station_key.id(), *admitted)));
        self.home.refresh(&origins);
    }

    fn again(&self, path: &str, own: &NodeIdentity) -> Directory {
        Directory::load(&self._dir.path().join(path), VOLUME, own.clone(), self.home_key.id())
    }
}

fn pass(from: &Directory, to: &Directory) -> bool {
    to.take(from.news_for(&to.have()))
}

fn addresses_of(directory: &Directory, node: NodeId) -> Vec<String> {
    directory.find(node).map(|server| server.addresses.iter().map(ToString::to_string).collect()).unwrap_or_default()
}

#[test]
fn the_homes_word_goes_by_way_of_a_station_and_survives_a_restart() {
    let world = World::new();
    world.home.set_own(vec![address("home.example.org:7475")]);
    assert!(pass(&world.home, &world.station));
    world.station.set_own(vec![address("192.0.2.2:7475")]);
    assert!(pass(&world.station, &world.client));
    assert_eq!(addresses_of(&world.client, world.home_key.id()), ["home.example.org:7475"]);
    assert_eq!(addresses_of(&world.client, world.station_key.id()), ["192.0.2.2:7475"]);
    assert!(!pass(&world.station, &world.client), "the same again is no news");
    let again = world.again("client", &key());
    assert_eq!(again.list(), world.client.list());
    assert_eq!(again.have(), world.client.have());
}

#[test]
fn a_key_that_the_home_does_not_list_is_not_taken_from_anyone() {
    let world = World::new();
    pass(&world.home, &world.client);
    let evil = key();
    let list = |home: NodeId, by: &NodeIdentity, number: u64| {
        let origins = [origin(1, home, Admitted::Home), origin(9, evil.id(), Admitted::Station)];
        let entries = ServerList::entries_of(&origins, None, |_| Vec::new(), 0);
        let list = Signed::new(&ServerList { volume: VOLUME, number, home, changes: Vec::new(), entries }, by);
        News { list, places: Vec::new() }
    };
    // A list of its own making; one in the home's name; one that replaces the home.
    for (home, by) in [(evil.id(), &evil), (world.home_key.id(), &evil), (world.home_key.id(), &world.station_key)] {
        assert!(!world.client.take(list(home, by, u64::MAX)));
    }
    let planted = Place { node: evil.id(), number: 5, addresses: vec![address("192.0.2.66:1")] };
    assert!(!world.client.take(News { list: None, places: vec![Signed::new(&planted, &evil).unwrap()] }));
    // Another's place under the own signature.
    let foreign = Place { node: world.home_key.id(), number: u64::MAX, addresses: vec![address("192.0.2.66:1")] };
    assert!(!world.client.take(News { list: None, places: vec![Signed::new(&foreign, &evil).unwrap()] }));
    assert_eq!(world.client.find(evil.id()), None);
    assert_eq!(world.client.home(), world.home_key.id());
    // What the home itself signs is taken, so that these were refused for their signatures.
    assert!(world.client.take(list(world.home_key.id(), &world.home_key, u64::MAX)));
    assert!(world.client.find(evil.id()).is_some());
}

#[test]
fn what_the_newest_list_lacks_is_dropped_and_an_older_list_is_refused() {
    let world = World::new();
    pass(&world.home, &world.station);
    world.station.set_own(vec![address("192.0.2.2:7475")]);
    pass(&world.home, &world.client);
    pass(&world.station, &world.client);
    assert!(world.client.find(world.station_key.id()).is_some());
    let old = world.station.news_for(&Have::default());
    world.members(&[(2, Admitted::Revoked)]);
    assert!(pass(&world.home, &world.client));
    assert_eq!(world.client.find(world.station_key.id()), None);
    assert!(!world.client.take(old.clone()), "the removed station's older list counts for nothing");
    assert_eq!(world.client.find(world.station_key.id()), None);
    let again = world.again("client", &key());
    assert!(!again.take(old), "nor after a restart");
    let list = world.client.signed_list().unwrap();
    let gone = list.entries.iter().find(|entry| entry.node == world.station_key.id()).unwrap();
    assert!(gone.revoked_unix_ms.is_some());
    // Admitted anew, it is back.
    world.members(&[(2, Admitted::Revoked), (3, Admitted::Station)]);
    pass(&world.home, &world.client);
    assert!(world.client.find(world.station_key.id()).is_some());
}

#[test]
fn a_newer_place_counts_and_an_older_does_not() {
    let world = World::new();
    world.home.set_own(vec![address("192.0.2.1:1")]);
    pass(&world.home, &world.client);
    let old = world.home.news_for(&Have::default());
    world.home.set_own(vec![address("192.0.2.1:2")]);
    assert!(pass(&world.home, &world.client));
    assert!(!world.client.take(old));
    assert_eq!(addresses_of(&world.client, world.home_key.id()), ["192.0.2.1:2"]);
    let place = world.home.have();
    assert!(!world.home.set_own(vec![address("192.0.2.1:2")]), "an unchanged place is not signed anew");
    assert_eq!(world.home.have(), place);
}

#[test]
fn a_tickets_addresses_go_before_and_end_with_the_servers_own_newer_word() {
    let world = World::new();
    world.home.set_own(vec![address("192.0.2.1:1")]);
    pass(&world.home, &world.client);
    assert!(world.client.tell(world.home_key.id(), vec![address("moved.example.org:7475")]));
    assert_eq!(addresses_of(&world.client, world.home_key.id()), ["moved.example.org:7475", "192.0.2.1:1"]);
    assert!(!world.client.tell(key().id(), vec![address("192.0.2.9:1")]), "of a stranger nothing is kept");
    world.home.set_own(vec![address("192.0.2.1:3")]);
    pass(&world.home, &world.client);
    assert_eq!(addresses_of(&world.client, world.home_key.id()), ["192.0.2.1:3"]);
}

#[test]
fn an_address_by_hand_goes_first_until_it_is_taken_back() {
    let world = World::new();
    world.home.set_own(vec![address("192.0.2.1:1")]);
    pass(&world.home, &world.client);
    let home = world.home_key.id();
    assert!(world.client.set_by_hand(home, vec![address("by-hand.example.org:9")]));
    world.home.set_own(vec![address("192.0.2.1:2")]);
    pass(&world.home, &world.client);
    assert_eq!(addresses_of(&world.client, home), ["by-hand.example.org:9", "192.0.2.1:2"]);
    assert_eq!(addresses_of(&world.again("client", &key()), home), ["by-hand.example.org:9", "192.0.2.1:2"]);
    assert!(world.client.set_by_hand(home, Vec::new()));
    assert_eq!(addresses_of(&world.client, home), ["192.0.2.1:2"]);
    assert!(!world.client.set_by_hand(key().id(), vec![address("192.0.2.1:1")]));
}

#[test]
fn a_home_restored_from_an_older_copy_gives_no_number_twice() {
    let world = World::new();
    let copy = world.again("home", &world.home_key);
    world.members(&[(2, Admitted::Revoked)]);
    pass(&world.home, &world.client);
    assert!(pass(&world.client, &copy), "the restored home hears of its own newer list");
    assert_eq!(copy.revoked(), [world.station_key.id()]);
    let newest = world.client.have().list;
    copy.refresh(&[origin(1, world.home_key.id(), Admitted::Home)]);
    assert!(copy.have().list > newest);
    assert!(pass(&copy, &world.client));
}

/// A list of one home that shows these changes of its key.
fn list_of(home: &NodeIdentity, changes: &[KeyChange]) -> News {
    let origins = [origin(1, home.id(), Admitted::Home)];
    let entries = ServerList::entries_of(&origins, None, |_| Vec::new(), 0);
    let changes = changes.to_vec();
    let list = ServerList { volume: VOLUME, number: u64::MAX / 2, home: home.id(), changes, entries };
    News { list: Signed::new(&list, home), places: Vec::new() }
}

#[test]
fn the_home_is_followed_to_its_next_key_by_the_word_of_the_one_that_is_known_and_no_other() {
    let world = World::new();
    pass(&world.home, &world.client);
    world.client.set_by_hand(world.home_key.id(), vec![address("192.0.2.7:1")]);
    let (next, thief) = (world.home_key.successor().unwrap(), key());
    assert!(!world.client.take(list_of(&next, &[])), "nobody said so");
    let of_thief = KeyChange::sign(&thief, next.id());
    assert!(!world.client.take(list_of(&next, &[of_thief])), "the known key did not say so");
    assert_eq!(world.client.home(), world.home_key.id());
    assert!(world.client.take(list_of(&next, next.changes())));
    assert_eq!(world.client.home(), next.id());
    assert_eq!(addresses_of(&world.client, next.id()), ["192.0.2.7:1"], "the user's word of where it is holds");
    let again = world.again("client", &key());
    assert_eq!(again.home(), next.id());
    // Who has the former key only says nothing to those who have followed.
    let stolen = KeyChange::sign(&world.home_key, thief.id());
    assert!(!again.take(list_of(&thief, &[stolen])));
    assert!(!again.take(list_of(&world.home_key, &[])));
}

#[test]
fn a_ticket_with_a_former_key_of_the_home_takes_nobody_back() {
    let world = World::new();
    let next = world.home_key.successor().unwrap();
    assert!(world.client.take(list_of(&next, next.changes())));
    assert!(!world.client.trust_home(world.home_key.id()), "that key is this home's");
    assert!(world.client.tell(world.home_key.id(), vec![address("192.0.2.9:1")]));
    assert_eq!(addresses_of(&world.client, next.id()), ["192.0.2.9:1"]);
    // The home shows its former key no more: who has followed knows all the same.
    let quiet = next.without_changes();
    let mut later = list_of(&quiet, &[]).list.unwrap().read::<ServerList>().unwrap();
    later.number += 1;
    assert!(world.client.take(News { list: Signed::new(&later, &quiet), places: Vec::new() }));
    assert!(!world.again("client", &key()).trust_home(world.home_key.id()));
    // Another home is one.
    assert!(world.client.trust_home(key().id()));
}

#[test]
fn a_home_with_a_new_key_signs_a_list_that_leads_to_it() {
    let world = World::new();
    pass(&world.home, &world.client);
    let next = world.home_key.successor().unwrap();
    let path = world._dir.path().join("home");
    let open = |own: &NodeIdentity| Directory::load(&path, VOLUME, own.clone(), own.id());
    let home = open(&next);
    assert_eq!(home.home(), next.id());
    let origins = [origin(1, next.id(), Admitted::Home), origin(2, world.station_key.id(), Admitted::Station)];
    assert!(home.refresh(&origins));
    assert!(pass(&home, &world.station) && pass(&world.station, &world.client), "also by way of a station");
    assert_eq!([world.client.home(), world.station.home()], [next.id(); 2]);
    // Without its word of the former key a list is signed anew, and leads nobody any more.
    let home = open(&next.without_changes());
    assert!(home.refresh(&origins));
    assert!(!pass(&home, &world.again("late", &key())));
    assert!(pass(&home, &world.client));
}

#[test]
fn a_full_list_with_places_of_all_fits_into_a_message() {
    let world = World::new();
    let long = "n".repeat(60);
    let keys: Vec<NodeIdentity> = (0..SERVERS_MAX).map(|_| key()).collect();
    let mut origins = vec![origin(1, world.home_key.id(), Admitted::Home)];
    for (number, key) in (2..).zip(&keys[1..]) {
        let mut station = origin(number, key.id(), Admitted::Station);
        station.1.label = "\"".repeat(64);
        origins.push(station);
    }
    assert!(world.home.refresh(&origins));
    for key in &keys[1..] {
        let addresses = (0..8).map(|port| address(&format!("{long}.{long}:{}", 60_000 + port))).collect();
        let place = Place { node: key.id(), number: u64::MAX, addresses: Place::cut(addresses) };
        assert!(world.home.take(News { list: None, places: vec![Signed::new(&place, key).unwrap()] }));
    }
    let news = world.home.news_for(&Have::default());
    assert!(news.list.is_some() && news.places.len() == SERVERS_MAX - 1);
    let have = world.home.have();
    let ask = crate::contents::message::Ask::Servers { have: have.clone(), news: news.clone() };
    let header = crate::contents::message::encode(&ask);
    assert_eq!(crate::contents::message::Ask::decode(&header), Ok(ask));
    let reply = crate::handshake::Reply::Servers { have, news };
    let bytes = crate::handshake::encode(&reply);
    assert_eq!(crate::handshake::decode(&bytes, crate::handshake::REPLY_LEN_MAX), Ok(reply), "{} bytes", bytes.len());
}

/// The bytes with some of them replaced, and cut off; places count from the beginning and go round.
fn damaged(whole: &[u8], edits: &[(usize, u8)], cut: usize) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for (at, byte) in edits {
        let at = at % whole.len();
        bytes[at] = *byte;
    }
    bytes.truncate(whole.len() - cut % whole.len());
    bytes
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn a_damaged_file_of_servers_is_read_or_learnt_again(
        edits in proptest::collection::vec(proptest::prelude::any::<(usize, u8)>(), 0..6),
        cut in proptest::option::of(proptest::prelude::any::<usize>()),
    ) {
        let world = World::new();
        pass(&world.home, &world.client);
        let path = world._dir.path().join("client");
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, damaged(&whole, &edits, cut.unwrap_or(0))).unwrap();
        let again = world.again("client", &key());
        let servers = again.list();
        assert!(servers.iter().all(|server| server.node == again.home() || again.signed_list().is_some()), "{servers:?}");
        again.trust_home(world.home_key.id());
        pass(&world.home, &again);
        assert_eq!(again.home(), world.home_key.id());
    }

    #[test]
    fn a_list_or_place_with_a_byte_changed_is_not_taken(
        edits in proptest::collection::vec(proptest::prelude::any::<(usize, u8)>(), 1..4),
    ) {
        let world = World::new();
        world.home.set_own(vec![address("192.0.2.1:1")]);
        let whole = serde_json::to_vec(&world.home.news_for(&Have::default())).unwrap();
        let Ok(news) = serde_json::from_slice::<News>(&damaged(&whole, &edits, 0)) else { return Ok(()) };
        let good = world.home.news_for(&Have::default());
        let before = (world.client.home(), world.client.list());
        world.client.take(News {
            list: news.list.filter(|list| Some(list) != good.list.as_ref()),
            places: news.places.into_iter().filter(|place| !good.places.contains(place)).collect(),
        });
        assert_eq!((world.client.home(), world.client.list()), before);
    }
}
