//! Listeners that read, do not read, and ask nonsense.

use super::*;

fn listening() -> (tempfile::TempDir, News, UnixStream) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link.sock");
    let news = News::listen(&path).unwrap();
    let stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (folder, news, stream)
}

fn line(stream: &mut UnixStream) -> Value {
    let mut text = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
    }
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn who_connects_gets_the_state_and_then_events() {
    let (_folder, mut news, mut stream) = listening();
    assert_eq!(news.handle(), []);
    assert!(news.wants_state());
    news.tell_state(&LinkReport { tun: "tun9".into(), ..LinkReport::default() });
    assert!(!news.wants_state());
    news.tell(&json!({ "event": "down" }));
    assert_eq!(line(&mut stream)["link"]["tun"], "tun9");
    assert_eq!(line(&mut stream)["event"], "down");
    stream.write_all(b"state\nhand-off\nwhat?\n").unwrap();
    assert_eq!(news.handle(), [Question::HandOff]);
    assert!(news.wants_state());
    assert_eq!(line(&mut stream)["event"], "error");
}

#[test]
fn who_does_not_read_or_asks_without_end_is_dropped() {
    let (_folder, mut news, _silent) = listening();
    news.handle();
    for _ in 0..20_000 {
        news.tell(&json!({ "event": "lost", "count": 1, "filler": "x".repeat(100) }));
    }
    news.handle();
    assert!(news.listeners.is_empty());
    let path = news.path.clone();
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(&[b'x'; 200]).unwrap();
    news.handle();
    news.handle();
    assert!(news.listeners.is_empty());
}

#[test]
fn only_so_many_may_listen_and_a_second_link_is_refused() {
    let (_folder, mut news, _stream) = listening();
    let path = news.path.clone();
    let _all: Vec<UnixStream> = (0..LISTENERS_MAX + 5).map(|_| UnixStream::connect(&path).unwrap()).collect();
    news.handle();
    assert_eq!(news.listeners.len(), LISTENERS_MAX);
    assert!(matches!(News::listen(&path), Err(LinkError::Running(_))));
    drop(news);
    assert!(!path.exists());
    // One that was left by a dead link is replaced.
    drop(UnixListener::bind(&path).unwrap());
    News::listen(&path).unwrap();
}
