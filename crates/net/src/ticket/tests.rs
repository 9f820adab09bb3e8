use super::*;
use proptest::prelude::*;

fn ticket() -> Ticket {
    Ticket::new(parts()).unwrap()
}

fn parts() -> TicketParts {
    TicketParts {
        role: TicketRole::Station,
        volume: VolumeId::from_bytes([7; 16]),
        volume_name: "work".to_owned(),
        home: NodeId::from_bytes([8; 32]),
        addresses: ["192.0.2.1:4711", "[2001:db8::1]:4711", "home.example.org:4711"]
            .map(|address| address.parse().unwrap())
            .to_vec(),
        secret: TicketSecret::from_bytes([9; 32]),
        expiry_unix_s: 1_800_000_000,
    }
}

/// A text around bytes that a forger chose, with a right length and check.
fn forged(change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = ticket().encode().to_vec();
    bytes.truncate(bytes.len() - CHECK_LEN);
    change(&mut bytes);
    let len = u16::try_from(bytes.len() + CHECK_LEN).unwrap();
    bytes[1..3].copy_from_slice(&len.to_le_bytes());
    let check = check(&bytes);
    bytes.extend_from_slice(&check);
    format!("{PREFIX}{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
}

#[test]
fn a_ticket_survives_its_text_mailers_and_shouting() {
    let text = ticket().to_text();
    assert_eq!(text.parse::<Ticket>().unwrap(), ticket());
    let broken = format!("  {}\n {}\t", &text[..40], &text[40..].to_uppercase());
    assert_eq!(broken.parse::<Ticket>().unwrap(), ticket());
}

#[test]
fn debug_shows_no_secret() {
    let shown = format!("{:?}", ticket());
    assert!(shown.contains("TicketSecret,"), "{shown}");
    assert!(!shown.contains("9, 9"), "{shown}");
}

#[test]
fn every_cut_is_called_a_cut() {
    let text = ticket().to_text();
    for len in PREFIX.len()..text.len() {
        let error = text[..len].parse::<Ticket>().unwrap_err();
        // A cut within the last letter's group can leave bits that no whole byte has.
        assert!(matches!(error, TicketError::Truncated | TicketError::Check), "{len}: {error}");
    }
    let aligned = &text[..PREFIX.len() + 80];
    assert_eq!(aligned.parse::<Ticket>(), Err(TicketError::Truncated));
}

#[test]
fn every_mistyped_letter_is_noticed() {
    let text = ticket().to_text();
    for at in PREFIX.len()..text.len() {
        let mut typed = text.as_bytes().to_vec();
        typed[at] = if typed[at] == b'q' { b'x' } else { b'q' };
        assert!(String::from_utf8(typed).unwrap().parse::<Ticket>().is_err(), "{at}");
    }
}

#[test]
fn each_wrong_part_is_named() {
    let text = ticket().to_text();
    assert_eq!("hello".parse::<Ticket>(), Err(TicketError::Prefix));
    assert_eq!("".parse::<Ticket>(), Err(TicketError::Prefix));
    assert_eq!("wayfs1-".parse::<Ticket>(), Err(TicketError::Truncated));
    assert_eq!("wayfs2-abc".parse::<Ticket>(), Err(TicketError::Version(2)));
    assert_eq!(format!("{PREFIX}ab!c").parse::<Ticket>(), Err(TicketError::Character('!')));
    assert_eq!(format!("{}aaaaaaaa", text.as_str()).parse::<Ticket>(), Err(TicketError::Excess));
    assert_eq!(forged(|b| b[0] = 9).parse::<Ticket>(), Err(TicketError::Version(9)));
    assert_eq!(forged(|b| b[3] = 7).parse::<Ticket>(), Err(TicketError::Role(7)));
    let name_at = 1 + 2 + 1 + 16 + 32 + 32 + 8;
    assert_eq!(forged(|b| b[name_at] = 200).parse::<Ticket>(), Err(TicketError::Name));
    assert_eq!(forged(|b| b[name_at + 1] = 0xff).parse::<Ticket>(), Err(TicketError::Name));
    assert_eq!(forged(|b| b[name_at + 1] = b'\n').parse::<Ticket>(), Err(TicketError::Name));
    let count_at = name_at + 1 + 4;
    for change in [
        |b: &mut Vec<u8>, at: usize| b[at] = 0,
        |b: &mut Vec<u8>, at: usize| b[at] = 1,
        |b: &mut Vec<u8>, at: usize| b[at] = 4,
        |b: &mut Vec<u8>, at: usize| b[at] = 99,
        |b: &mut Vec<u8>, at: usize| b[at + 1] = 5,
        |b: &mut Vec<u8>, at: usize| b[at + 1] = 6,
        |b: &mut Vec<u8>, at: usize| b[at + 6..at + 8].fill(0),
        |b: &mut Vec<u8>, at: usize| b[at + 2..at + 6].fill(0),
        |b: &mut Vec<u8>, at: usize| b.truncate(at + 3),
        // The name of the third address, and what becomes of it.
        |b: &mut Vec<u8>, at: usize| b[at + 1 + 7 + 19 + 2] = b'/',
        |b: &mut Vec<u8>, at: usize| b[at + 1 + 7 + 19 + 1] = 200,
        |b: &mut Vec<u8>, at: usize| b.truncate(at + 1 + 7 + 19 + 1),
    ] {
        let error = forged(|b| change(b, count_at)).parse::<Ticket>().unwrap_err();
        assert!(matches!(error, TicketError::Address(_)), "{error}");
    }
}

#[test]
fn parts_beyond_the_limits_make_no_ticket() {
    let address: Address = "192.0.2.1:1".parse().unwrap();
    for (count, right) in [(0, false), (1, true), (ADDRESSES_MAX, true), (ADDRESSES_MAX + 1, false)] {
        let made = Ticket::new(TicketParts { addresses: vec![address.clone(); count], ..parts() });
        assert_eq!(made.is_ok(), right, "{count} addresses");
    }
    for (len, right) in [(0, false), (1, true), (NAME_LEN_MAX, true), (NAME_LEN_MAX + 1, false)] {
        let made = Ticket::new(TicketParts { volume_name: "n".repeat(len), ..parts() });
        assert_eq!(made.is_ok(), right, "a name of {len} bytes");
    }
    let longest = Ticket::new(TicketParts {
        addresses: vec![Address::named(&["a".repeat(63).as_str(); 3].join("."), 1).unwrap(); ADDRESSES_MAX],
        volume_name: "n".repeat(NAME_LEN_MAX),
        ..parts()
    })
    .unwrap();
    assert_eq!(longest.to_text().parse::<Ticket>().unwrap(), longest);
}

#[test]
fn a_ticket_ends_at_its_expiry() {
    assert!(!ticket().expired_at(1_799_999_999));
    assert!(ticket().expired_at(1_800_000_000));
}

proptest! {
    #[test]
    fn any_text_is_refused_without_a_panic(text in ".{0,400}") {
        prop_assert!(text.parse::<Ticket>().is_err());
    }

    #[test]
    fn any_letters_are_refused_without_a_panic(code in "[a-z2-7]{0,1500}") {
        let text = format!("{PREFIX}{code}");
        prop_assert!(text.parse::<Ticket>().is_err());
    }

    #[test]
    fn any_body_with_a_right_check_is_parsed_or_refused(
        body in proptest::collection::vec(any::<u8>(), LEN_MIN..LEN_MAX)
    ) {
        let text = forged(|bytes| {
            bytes.truncate(4);
            bytes[3] = 1;
            bytes.extend_from_slice(&body[..body.len() - CHECK_LEN]);
        });
        if let Ok(ticket) = text.parse::<Ticket>() {
            prop_assert_eq!(ticket.to_text().parse::<Ticket>().unwrap(), ticket);
        }
    }

    #[test]
    fn any_ticket_survives_its_text(
        name in "[^\\p{Cc}]{1,60}",
        ips in proptest::collection::vec(any::<std::net::IpAddr>(), 1..=ADDRESSES_MAX),
        port in 1u16..,
        secret in any::<[u8; 32]>(),
        expiry_unix_s in any::<u64>(),
    ) {
        let addresses = ips.into_iter().map(|ip| SocketAddr::new(ip, port).into()).collect();
        let secret = TicketSecret::from_bytes(secret);
        let made = Ticket::new(TicketParts {
            volume_name: name, addresses, secret, expiry_unix_s, ..parts()
        });
        if let Ok(ticket) = made {
            prop_assert_eq!(ticket.to_text().parse::<Ticket>().unwrap(), ticket);
        }
    }
}
