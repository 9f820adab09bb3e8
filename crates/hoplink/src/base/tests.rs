//! Schemes that both ends want, and addresses that run out.

use super::*;

/// Of a runtime that has ended: nothing is joined here.
fn rooms() -> Rooms {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let plan = Plan { pool: Pool::default(), mtu: 1360, selective: false };
    Rooms { plan, runtime: runtime.handle().clone(), open: Mutex::default() }
}

fn desk(scheme: Option<&str>, pool: &str) -> Desk {
    Desk {
        secret: TicketSecret::from_bytes([1; 32]),
        scheme: scheme.map(|name| (name.to_owned(), name.parse().unwrap())),
        window: 512,
        mtu: 1360,
        port: 1,
        life: 1,
        pool: pool.parse().unwrap(),
        rooms: rooms(),
        orders: orders().unwrap().0,
        numbers: Mutex::new(BTreeMap::new()),
    }
}

#[test]
fn the_ends_agree_on_a_scheme_or_say_why_not() {
    assert_eq!(desk(None, "10.0.0.0/24").scheme("").unwrap().0, "ours");
    assert_eq!(desk(None, "10.0.0.0/24").scheme("snoop").unwrap().0, "snoop");
    assert_eq!(desk(Some("ll"), "10.0.0.0/24").scheme("").unwrap().0, "ll");
    assert_eq!(desk(Some("ll"), "10.0.0.0/24").scheme("ll").unwrap().0, "ll");
    let error = desk(Some("ll"), "10.0.0.0/24").scheme("ours").unwrap_err();
    assert!(error.contains("ll") && error.contains("ours"), "{error}");
    assert_eq!(desk(None, "10.0.0.0/24").scheme("split").unwrap().1, Scheme::Split { selective: false });
    assert!(desk(None, "10.0.0.0/24").scheme("nonsense").unwrap_err().contains("snoop-sack"));
}

#[test]
fn a_mobile_keeps_its_address_and_a_full_pool_refuses() {
    let desk = desk(None, "10.0.0.0/30");
    let peer = |n: u8| NodeId::from_bytes([n; 32]);
    assert_eq!(desk.number(peer(1)), Some(1));
    assert_eq!(desk.number(peer(1)), Some(1));
    assert_eq!(desk.number(peer(2)), None);
    // The owner was not here for longer than its address is kept.
    desk.numbers.lock().unwrap().insert(peer(1), (1, Time::ZERO));
    if clock::now().since(Time::ZERO) > ADDRESS_KEPT {
        assert_eq!(desk.number(peer(2)), Some(1));
        assert_eq!(desk.number(peer(1)), None);
    }
}
