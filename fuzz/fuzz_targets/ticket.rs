//! Any text is a ticket or is refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(ticket) = text.parse::<wayfs_net::Ticket>() {
        assert!(ticket.to_text().parse::<wayfs_net::Ticket>().is_ok());
    }
});
