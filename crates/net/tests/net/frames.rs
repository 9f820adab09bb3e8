//! The control stream.

use crate::pair::{Pair, addr, endpoint, pair, pair_at, pair_with, soon};
use crate::proxy::Proxy;
use bytes::Bytes;
use std::time::Duration;
use wayfs_net::{CloseCode, FRAME_LEN_MAX, FrameError, FramePacking, NetConfig, TrySendError};

fn packing(frame_packing: FramePacking) -> NetConfig {
    NetConfig { frame_packing, ..NetConfig::default() }
}

#[tokio::test]
async fn frames_of_all_lengths_come_whole_and_in_order_both_ways() {
    exchange_all_lengths(FramePacking::Never, FramePacking::Never).await;
}

#[tokio::test]
async fn packed_frames_of_all_lengths_do_too_whatever_the_other_side_packs() {
    exchange_all_lengths(FramePacking::Always, FramePacking::Always).await;
    exchange_all_lengths(FramePacking::Always, FramePacking::Never).await;
}

async fn exchange_all_lengths(near: FramePacking, far: FramePacking) {
    let pair = pair_with(packing(near), packing(far)).await;
    let (near_sender, mut near_receiver) = pair.near.control().unwrap();
    let (far_sender, mut far_receiver) = pair.far.control().unwrap();
    assert!(pair.near.control().is_none());
    let lens = [0, 1, 5, 8191, 8192, 8193, 70_000, 1_000_000, FRAME_LEN_MAX, 3, 0];
    let make = |index: usize, len: usize| Bytes::from(vec![index as u8; len]);
    let send = async {
        for (index, len) in lens.into_iter().enumerate() {
            near_sender.send(make(index, len)).await.unwrap();
            far_sender.send(make(index, len)).await.unwrap();
        }
    };
    let receive = async {
        for (index, len) in lens.into_iter().enumerate() {
            assert_eq!(near_receiver.recv().await.unwrap().unwrap(), make(index, len));
            assert_eq!(far_receiver.recv().await.unwrap().unwrap(), make(index, len));
        }
    };
    soon("all frames", async { tokio::join!(send, receive) }).await;
    let sum: usize = lens.iter().sum();
    let (sent, received) = (pair.near.stats().traffic, pair.client.traffic());
    assert_eq!((sent.frame_bytes_sent_unpacked, received.frame_bytes_received_unpacked), (sum as u64, sum as u64));
    let are_packed = near != FramePacking::Never;
    assert!(if are_packed { sent.frame_bytes_sent < sum as u64 / 100 } else { sent.frame_bytes_sent == sum as u64 });
    assert_eq!(pair.server.traffic().frame_bytes_received, sent.frame_bytes_sent);
}

#[tokio::test]
async fn frames_over_a_slow_path_are_packed() {
    let server = endpoint(NetConfig::default());
    // It delays by 5 ms each way, so no round trip is ever short.
    let proxy = Proxy::start(addr(&server)).await;
    let pair = pair_at(endpoint(NetConfig::default()), server, proxy.addr()).await;
    let (sender, _receiver) = pair.near.control().unwrap();
    let (_sender, mut receiver) = pair.far.control().unwrap();
    let frame = Bytes::from("the same words over and over, ".repeat(10));
    for _ in 0..20 {
        sender.send(frame.clone()).await.unwrap();
        assert_eq!(soon("a frame", receiver.recv()).await.unwrap().unwrap(), frame);
    }
    let traffic = pair.near.stats().traffic;
    assert!(traffic.frame_bytes_sent < traffic.frame_bytes_sent_unpacked / 5, "{traffic:?}");
}

#[tokio::test]
async fn many_small_frames_keep_their_order() {
    let pair = pair().await;
    let (sender, _receiver) = pair.near.control().unwrap();
    let (_sender, mut receiver) = pair.far.control().unwrap();
    let send = async {
        for number in 0..20_000u32 {
            sender.send(Bytes::copy_from_slice(&number.to_le_bytes())).await.unwrap();
        }
    };
    let receive = async {
        for number in 0..20_000u32 {
            assert_eq!(receiver.recv().await.unwrap().unwrap(), number.to_le_bytes()[..]);
        }
    };
    soon("all frames", async { tokio::join!(send, receive) }).await;
}

#[tokio::test]
async fn a_full_queue_says_so_and_recovers() {
    let small = NetConfig { path_capacity: 256 << 10, ..NetConfig::default() };
    let narrow = NetConfig { frame_queue_bytes_max: FRAME_LEN_MAX as u32, ..small.clone() };
    let pair = pair_with(narrow, small).await;
    let (sender, _receiver) = pair.near.control().unwrap();
    let (_sender, mut receiver) = pair.far.control().unwrap();
    let frame = Bytes::from(vec![1; 1 << 20]);
    let mut taken = 0;
    soon("a full queue", async {
        loop {
            match sender.try_send(frame.clone()) {
                Ok(()) => taken += 1,
                Err(TrySendError::Full(back)) if taken >= 4 => {
                    assert_eq!(back, frame);
                    return;
                }
                Err(TrySendError::Full(_)) => panic!("full after {taken} MiB"),
                Err(other) => panic!("{other}"),
            }
        }
    })
    .await;
    let blocked = tokio::time::timeout(Duration::from_millis(50), sender.send(frame.clone())).await;
    assert!(blocked.is_err(), "there was no room to wait for");
    let (sent, ()) = soon("room", async {
        tokio::join!(sender.send("last".into()), async {
            for _ in 0..taken {
                assert_eq!(receiver.recv().await.unwrap().unwrap(), frame);
            }
            assert_eq!(receiver.recv().await.unwrap().unwrap(), "last");
        })
    })
    .await;
    sent.unwrap();
}

#[tokio::test]
async fn a_frame_too_long_is_refused_at_the_sender_and_harms_nobody() {
    let Pair { near, far, client: _c, server: _s } = pair().await;
    let (sender, _receiver) = near.control().unwrap();
    let (_sender, mut receiver) = far.control().unwrap();
    let frame = Bytes::from(vec![0; FRAME_LEN_MAX + 1]);
    assert_eq!(sender.try_send(frame.clone()), Err(TrySendError::TooLong(FRAME_LEN_MAX + 1)));
    assert_eq!(sender.send(frame).await, Err(FrameError::TooLong(FRAME_LEN_MAX + 1)));
    sender.send("fine".into()).await.unwrap();
    assert_eq!(soon("a frame", receiver.recv()).await.unwrap().unwrap(), "fine");
}

#[tokio::test]
async fn receiving_may_be_cancelled_at_any_point() {
    receive_in_a_hurry(FramePacking::Never).await;
    receive_in_a_hurry(FramePacking::Always).await;
}

async fn receive_in_a_hurry(frame_packing: FramePacking) {
    let pair = pair_with(packing(frame_packing), NetConfig::default()).await;
    let (sender, _receiver) = pair.near.control().unwrap();
    let (_sender, mut receiver) = pair.far.control().unwrap();
    let frame = Bytes::from((0..300_000u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>());
    let sending = async {
        for _ in 0..10 {
            sender.send(frame.clone()).await.unwrap();
        }
    };
    let receiving = async {
        let mut got = 0;
        while got < 10 {
            let hurry = tokio::time::timeout(Duration::from_micros(50), receiver.recv());
            if let Ok(received) = hurry.await {
                assert_eq!(received.unwrap().unwrap(), frame);
                got += 1;
            }
        }
    };
    soon("all frames", async { tokio::join!(sending, receiving) }).await;
}

#[tokio::test]
async fn finishing_what_is_over_waits_for_nobody() {
    let pair = pair().await;
    let forever = Duration::from_secs(3600);
    pair.far.close(CloseCode::GOODBYE, "");
    soon("the end", pair.near.closed()).await;
    soon("the end of the first", pair.near.finish(CloseCode::GOODBYE, "", forever)).await;
    soon("the end of the second", pair.near.finish(CloseCode::GOODBYE, "", forever)).await;
}

#[tokio::test]
async fn finishing_delivers_what_was_queued() {
    let pair = pair().await;
    let (sender, _receiver) = pair.near.control().unwrap();
    let (_sender, mut receiver) = pair.far.control().unwrap();
    for _ in 0..100 {
        sender.try_send(Bytes::from(vec![3; 50_000])).unwrap();
    }
    let read = tokio::spawn(async move {
        let mut count = 0;
        while let Ok(Some(_)) = receiver.recv().await {
            count += 1;
        }
        count
    });
    let patience = Duration::from_secs(5);
    let finish = || pair.near.finish(CloseCode::GOODBYE, "", patience);
    soon("the end, for two who ask for it", async { tokio::join!(finish(), finish()) }).await;
    assert_eq!(soon("all frames", read).await.unwrap(), 100);
    assert!(matches!(sender.try_send("late".into()), Err(TrySendError::Closed)));
}
