//! Claims about endpoints on the loopback interface.
use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::common::{SERVER_NAME, code, configs, connect, endpoints, pattern, receive, run, send};
use crate::skip::skipped;
use rc3_net::{
    ConnectError, ConnectionError, Endpoint, Listener, ReadError, ReadExactError, ReadToEndError, RlpMode,
    Stream, TransportConfig, WriteError, crypto::rustls::HandshakeData,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Runtime,
};

const LOOPBACKS: [&str; 2] = ["127.0.0.1", "[::1]"];

fn defaults(_: &mut TransportConfig) {}

#[test]
fn a_large_stream_arrives_whole_in_both_families_and_directions() {
    for ip in LOOPBACKS {
        run(async {
            let (client, server) = endpoints(ip, defaults);
            let (near, far) = connect(&client, &server).await;
            let data = pattern(20 << 20, 1);
            for (from, to) in [(&near, &far), (&far, &near)] {
                let sending = async { send(from.open_uni().await.unwrap(), data.clone()).await };
                let receiving = async { receive(to.accept_uni().await.unwrap(), &data).await };
                tokio::join!(sending, receiving);
                assert!(from.is_rc3() && to.is_rc3());
                let received = to.stats().received;
                let rlp: u64 = received.rlp_bytes.iter().sum();
                assert!(rlp > 0, "{received:?}");
                assert_eq!(rlp + received.primary_bytes, data.len() as u64);
            }
        });
    }
}

#[test]
fn both_directions_of_a_stream_at_once_arrive_whole() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        let (up, down) = (pattern(5 << 20, 2), pattern(5 << 20, 3));
        let client = async {
            let (tx, rx) = near.open_bi().await.unwrap();
            tokio::join!(send(tx, up.clone()), receive(rx, &down));
        };
        let server = async {
            let (tx, rx) = far.accept_bi().await.unwrap();
            tokio::join!(send(tx, down.clone()), receive(rx, &up));
        };
        tokio::join!(client, server);
    });
}

#[test]
fn more_streams_than_allowed_at_once_all_arrive() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport.max_concurrent_uni_streams(10_u8.into());
        });
        let (near, far) = connect(&client, &server).await;
        let sending = async {
            let mut tasks = tokio::task::JoinSet::new();
            for number in 0..100u64 {
                let near = near.clone();
                tasks.spawn(async move {
                    let mut data = number.to_le_bytes().to_vec();
                    data.extend(pattern(50_000, number));
                    send(near.open_uni().await.unwrap(), data).await;
                });
            }
            tasks.join_all().await;
        };
        let receiving = async {
            let mut seen = std::collections::HashSet::new();
            for _ in 0..100 {
                let mut stream = far.accept_uni().await.unwrap();
                let got = stream.read_to_end(1 << 20).await.unwrap();
                let number = u64::from_le_bytes(got[..8].try_into().unwrap());
                assert!(got[8..] == pattern(50_000, number));
                assert!(seen.insert(number));
            }
        };
        tokio::join!(sending, receiving);
    });
}

#[test]
fn a_finished_and_dropped_stream_is_forgotten_when_the_peer_stops_it() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport.rlp(RlpMode::Off).stream_receive_window(10_000_u32.into());
        });
        let (near, far) = connect(&client, &server).await;
        let mut tx = near.open_uni().await.unwrap();
        // They wait for the receiver's window.
        tx.write_all(&pattern(50_000, 1)).await.unwrap();
        tx.finish().unwrap();
        // Until it is polled, nobody waits for the code, nor once it is dropped.
        let (stopped, given_up, mut waits) = (tx.stopped(), tx.stopped(), Box::pin(tx.stopped()));
        assert!(tokio::time::timeout(Duration::ZERO, given_up).await.is_err());
        assert!(tokio::time::timeout(Duration::ZERO, &mut waits).await.is_err());
        drop(tx);
        far.accept_uni().await.unwrap().stop(code(7)).unwrap();
        send(far.open_uni().await.unwrap(), b"behind the stop".to_vec()).await;
        receive(near.accept_uni().await.unwrap(), b"behind the stop").await;
        assert_eq!((waits.await, stopped.await), (Ok(Some(code(7))), Ok(None)));
    });
}

#[test]
fn a_hundred_connections_at_once_all_work() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport.stream_receive_window((1_u32 << 20).into()).receive_window((1_u32 << 20).into());
        });
        let address = server.local_addr().unwrap();
        let echo = tokio::spawn({
            let server = server.clone();
            async move {
                for _ in 0..100 {
                    let incoming = server.accept().await.unwrap();
                    tokio::spawn(async move {
                        let connection = incoming.await.unwrap();
                        let (mut tx, mut rx) = connection.accept_bi().await.unwrap();
                        tx.write_all(&rx.read_to_end(1 << 20).await.unwrap()).await.unwrap();
                        tx.finish().unwrap();
                        connection.closed().await;
                    });
                }
            }
        });
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..100 {
            let client = client.clone();
            tasks.spawn(async move {
                let connection = client.connect(address, SERVER_NAME).unwrap().await.unwrap();
                let (tx, rx) = connection.open_bi().await.unwrap();
                let data = pattern(100_000, number);
                tokio::join!(send(tx, data.clone()), receive(rx, &data));
                connection.close(code(0), b"");
            });
        }
        tasks.join_all().await;
        echo.await.unwrap();
        client.wait_idle().await;
        assert_eq!(client.open_connections(), 0);
    });
}

#[test]
fn a_stream_of_higher_priority_overtakes() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport
                .rlp(RlpMode::Off)
                .stream_receive_window(100_000_u32.into())
                .receive_window(100_000_u32.into());
        });
        let (near, far) = connect(&client, &server).await;
        near.set_send_window(8 << 20);
        let mut slow = near.open_uni().await.unwrap();
        let mut urgent = near.open_uni().await.unwrap();
        assert_eq!(urgent.priority(), Ok(0));
        slow.set_priority(-1).unwrap();
        urgent.set_priority(7).unwrap();
        assert_eq!((slow.priority(), urgent.priority()), (Ok(-1), Ok(7)));
        // More than the peer takes unread: the rest waits at the sender when the urgent bytes arrive.
        slow.write_chunk(pattern(2_000_000, 1).into()).await.unwrap();
        slow.finish().unwrap();
        let mut first = far.accept_uni().await.unwrap();
        urgent.write_chunk(pattern(10_000, 2).into()).await.unwrap();
        urgent.finish().unwrap();
        let mut second = None;
        let mut read = 0;
        while second.is_none() {
            tokio::select! {
                biased;
                stream = far.accept_uni() => second = Some(stream.unwrap()),
                chunk = first.read_chunk(10_000, true) => read += chunk.unwrap().expect("not the end").bytes.len(),
            }
        }
        assert!(read < 1_000_000, "{read} bytes of the other came first");
        receive(second.unwrap(), &pattern(10_000, 2)).await;
        let mut rest = vec![0; 2_000_000 - read];
        first.read_exact(&mut rest).await.unwrap();
        assert!(rest == pattern(2_000_000, 1)[read..]);
    });
}

#[test]
fn a_reset_is_seen_with_its_code_by_every_kind_of_read() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        let mut tx = near.open_uni().await.unwrap();
        tx.write_all(b"to be given up").await.unwrap();
        let mut rx = far.accept_uni().await.unwrap();
        tx.reset(code(42)).unwrap();
        assert_eq!(rx.received_reset().await, Ok(Some(code(42))));
        let mut buf = [0; 100];
        // Twice: it stays reset.
        for _ in 0..2 {
            let read = loop {
                match rx.read(&mut buf).await {
                    Ok(Some(_)) => {}
                    end => break end,
                }
            };
            assert_eq!(read, Err(ReadError::Reset(code(42))));
        }
        let exact = rx.read_exact(&mut buf).await;
        assert_eq!(exact, Err(ReadExactError::ReadError(ReadError::Reset(code(42)))));
        assert_eq!(tx.write(b"more").await, Err(WriteError::ClosedStream));
        assert!(tx.finish().is_err() && tx.reset(code(1)).is_err());
        assert_eq!(tx.stopped().await, Ok(None));
    });
}

#[test]
fn a_stop_is_seen_with_its_code_by_the_writer() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        let mut tx = near.open_uni().await.unwrap();
        tx.write_all(b"unwanted").await.unwrap();
        let stopped = tx.stopped();
        let mut rx = far.accept_uni().await.unwrap();
        rx.stop(code(17)).unwrap();
        assert!(rx.stop(code(18)).is_err());
        assert_eq!(stopped.await, Ok(Some(code(17))));
        assert_eq!(tx.write(b"more").await, Err(WriteError::Stopped(code(17))));
        assert!(tx.finish().is_ok(), "harmless, as in quinn");

        // Dropped unread: stopped with 0.
        let mut tx = near.open_uni().await.unwrap();
        tx.write_all(b"unwanted").await.unwrap();
        drop(far.accept_uni().await.unwrap());
        assert_eq!(tx.stopped().await, Ok(Some(code(0))));
    });
}

#[test]
fn a_stream_ends_when_it_is_finished_or_dropped() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        for explicit in [true, false] {
            let mut tx = near.open_uni().await.unwrap();
            tx.write_all(b"all there is").await.unwrap();
            if explicit {
                tx.finish().unwrap();
                assert!(tx.finish().is_err());
                assert_eq!(tx.write(b"more").await, Err(WriteError::ClosedStream));
            }
            drop(tx);
            let mut rx = far.accept_uni().await.unwrap();
            let mut buf = [0; 20];
            assert_eq!(rx.read_exact(&mut buf).await, Err(ReadExactError::FinishedEarly(12)));
            assert_eq!(&buf[..12], b"all there is");
            assert_eq!(rx.read(&mut buf).await, Ok(None));
            assert_eq!(rx.received_reset().await, Ok(None));
        }
        let mut tx = near.open_uni().await.unwrap();
        tx.write_all(b"too long").await.unwrap();
        tx.finish().unwrap();
        let mut rx = far.accept_uni().await.unwrap();
        assert_eq!(rx.read_to_end(7).await, Err(ReadToEndError::TooLong));
    });
}

#[test]
fn every_kind_of_read_goes_on_where_the_one_before_ended() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        let data = pattern(1_500_000, 4);
        let mut tx = near.open_uni().await.unwrap();
        tx.write_all(&data).await.unwrap();
        tx.finish().unwrap();
        assert_eq!(tx.stopped().await, Ok(None), "all has arrived, so reads in any order are in order");
        let mut rx = far.accept_uni().await.unwrap();
        let mut got = Vec::new();
        for round in 0..20 {
            for ordered in [true, false] {
                let chunk = rx.read_chunk(1 + 100 * round, ordered).await.unwrap().expect("not the end");
                assert!(chunk.bytes.len() <= 1 + 100 * round);
                if ordered {
                    assert_eq!(chunk.offset, got.len() as u64);
                }
                got.extend_from_slice(&chunk.bytes);
            }
            let mut few = [0; 7];
            let count = rx.read(&mut few).await.unwrap().expect("not the end");
            got.extend_from_slice(&few[..count]);
            let mut bufs = [bytes::Bytes::new(), bytes::Bytes::new()];
            let count = rx.read_chunks(&mut bufs).await.unwrap().expect("not the end");
            bufs[..count].iter().for_each(|buf| got.extend_from_slice(buf));
            rx.read_chunk(1, true).await.unwrap().inspect(|chunk| got.extend_from_slice(&chunk.bytes));
        }
        got.extend(rx.read_to_end(data.len()).await.unwrap());
        assert_eq!(got, data);
    });
}

#[test]
fn a_reader_may_stop_while_bytes_are_left_that_the_machine_has_given_away() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        let mut tx = near.open_uni().await.unwrap();
        tx.write_all(&pattern(10_000, 5)).await.unwrap();
        tx.finish().unwrap();
        assert_eq!(tx.stopped().await, Ok(None), "all has arrived");
        let mut rx = far.accept_uni().await.unwrap();
        assert_eq!(rx.read_chunk(1, true).await.unwrap().expect("a byte").bytes.len(), 1);
        rx.stop(code(1)).unwrap();
        rx.stop(code(1)).unwrap_err();
    });
}

#[test]
fn unordered_chunks_cover_the_stream_once() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        let data = pattern(3 << 20, 9);
        let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
        let receiving = async {
            let mut rx = far.accept_uni().await.unwrap();
            let mut got = vec![0; data.len()];
            let mut count = 0;
            while let Some(chunk) = rx.read_chunk(usize::MAX, false).await.unwrap() {
                let at = chunk.offset as usize;
                got[at..at + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                count += chunk.bytes.len();
            }
            assert_eq!(count, data.len());
            assert!(got == data);
        };
        tokio::join!(sending, receiving);
    });
}

#[test]
fn closing_informs_both_sides_and_ends_every_wait() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        let mut tx = near.open_uni().await.unwrap();
        tx.write_all(b"read me later").await.unwrap();
        let mut rx = far.accept_uni().await.unwrap();
        let mut buf = [0; 4];
        rx.read_exact(&mut buf).await.unwrap();
        let waiting = tokio::spawn({
            let far = far.clone();
            async move { far.accept_bi().await.map(drop) }
        });
        near.close(code(5), b"enough");
        assert_eq!(near.close_reason(), Some(ConnectionError::LocallyClosed));
        assert_eq!(tx.write(b"x").await, Err(WriteError::ConnectionLost(ConnectionError::LocallyClosed)));
        assert!(near.open_uni().await.is_err());
        let ConnectionError::ApplicationClosed(close) = far.closed().await else {
            panic!("closed otherwise")
        };
        assert_eq!((close.error_code, &close.reason[..]), (code(5), &b"enough"[..]));
        assert!(waiting.await.unwrap().is_err());
        client.wait_idle().await;
        server.wait_idle().await;
        // Data from before the close can be read, even after the connection has ended.
        let mut rest = [0; 9];
        rx.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b" me later");
        let lost = rx.read(&mut rest).await;
        assert!(matches!(lost, Err(ReadError::ConnectionLost(ConnectionError::ApplicationClosed(_)))));
    });
}

#[test]
fn a_close_that_was_sent_arrives_although_the_program_ends() {
    let (client_config, server_config) = configs(defaults);
    let (ending, staying) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let server =
        staying.block_on(async { Endpoint::server(server_config, "127.0.0.1:0".parse().unwrap()).unwrap() });
    let address = server.local_addr().unwrap();
    let accepting = staying.spawn(async move { server.accept().await.unwrap().await.unwrap() });
    ending.block_on(async {
        let client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        client.wait_closes_sent().await;
        let near = client.connect_with(client_config, address, SERVER_NAME).unwrap().await.unwrap();
        client.wait_closes_sent().await;
        assert_eq!(near.close_reason(), None);
        client.close(code(5), b"enough");
        client.wait_closes_sent().await;
        assert_eq!(client.open_connections(), 1, "it would answer late packets");
    });
    ending.shutdown_background();
    staying.block_on(async {
        let far = accepting.await.unwrap();
        let closed = tokio::time::timeout(Duration::from_secs(5), far.closed()).await.unwrap();
        assert!(matches!(closed, ConnectionError::ApplicationClosed(close) if close.error_code == code(5)));
    });
}

#[test]
fn the_last_handle_closes_with_code_zero() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        let stream = near.open_uni().await.unwrap();
        drop(near);
        assert_eq!(far.close_reason(), None, "a stream holds it");
        drop(stream);
        let ConnectionError::ApplicationClosed(close) = far.closed().await else {
            panic!("closed otherwise")
        };
        assert_eq!((close.error_code, close.reason.len()), (code(0), 0));
        client.wait_idle().await;
    });
}

#[test]
fn connecting_to_nobody_times_out() {
    run(async {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (client, _) = endpoints("127.0.0.1", |transport| {
            transport.max_idle_timeout(Some(Duration::from_millis(300).try_into().unwrap()));
        });
        let connecting = client.connect(nobody.local_addr().unwrap(), SERVER_NAME).unwrap();
        assert_eq!(connecting.remote_address(), nobody.local_addr().unwrap());
        assert_eq!(connecting.await.unwrap_err(), ConnectionError::TimedOut);
        client.wait_idle().await;
    });
}

#[test]
fn what_cannot_be_tried_is_refused_at_once() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let address = server.local_addr().unwrap();
        let without = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let error = |result: Result<rc3_net::Connecting, ConnectError>| result.err().unwrap();
        assert_eq!(error(without.connect(address, SERVER_NAME)), ConnectError::NoDefaultClientConfig);
        let v6: SocketAddr = "[::1]:1".parse().unwrap();
        assert_eq!(error(client.connect(v6, SERVER_NAME)), ConnectError::InvalidRemoteAddress(v6));
        assert!(matches!(error(client.connect(address, "no name")), ConnectError::InvalidServerName(_)));
        client.close(code(0), b"");
        assert_eq!(error(client.connect(address, SERVER_NAME)), ConnectError::EndpointStopping);
        assert!(client.accept().await.is_none());
    });
}

#[test]
fn a_server_can_refuse_retry_and_look_before_it_accepts() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let address = server.local_addr().unwrap();
        let refused = client.connect(address, SERVER_NAME).unwrap();
        server.accept().await.unwrap().refuse();
        assert!(matches!(refused.await, Err(ConnectionError::ConnectionClosed(_))));
        let refused = client.connect(address, SERVER_NAME).unwrap();
        drop(server.accept().await.unwrap());
        assert!(matches!(refused.await, Err(ConnectionError::ConnectionClosed(_))));

        let connecting = client.connect(address, SERVER_NAME).unwrap();
        let first = server.accept().await.unwrap();
        assert_eq!(first.remote_address(), client.local_addr().unwrap());
        assert!(!first.remote_address_validated() && first.may_retry());
        first.retry().unwrap();
        let second = server.accept().await.unwrap();
        assert!(second.remote_address_validated());
        let second = second.retry().expect_err("once is enough").into_incoming();
        let mut accepted = second.accept().unwrap();
        let looking = async {
            let data = accepted.handshake_data().await.unwrap().downcast::<HandshakeData>().unwrap();
            assert_eq!(data.server_name.as_deref(), Some(SERVER_NAME));
            accepted.await.unwrap()
        };
        let (near, far) = tokio::join!(connecting, looking);
        let near = near.unwrap();
        let data = near.handshake_data().unwrap().downcast::<HandshakeData>().unwrap();
        assert_eq!(data.protocol.as_deref(), Some(&b"test"[..]), "without our prefix");
        assert!(near.peer_identity().is_some());
        let (mut here, mut there) = ([0; 32], [1; 32]);
        near.export_keying_material(&mut here, b"label", b"context").unwrap();
        far.export_keying_material(&mut there, b"label", b"context").unwrap();
        assert_eq!(here, there);
        assert_ne!(near.stable_id(), far.stable_id());
    });
}

#[test]
fn a_graceful_close_delivers_what_was_accepted() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        // Both fit the window of a reader that does not read, even if RLP was withdrawn.
        let data = pattern(1 << 20, 4);
        let sending = async {
            let mut dropped = near.open_uni().await.unwrap();
            dropped.write_chunk(data.clone().into()).await.unwrap();
            drop(dropped);
            let mut open = near.open_uni().await.unwrap();
            open.write_chunk(data.clone().into()).await.unwrap();
            near.close_gracefully(code(3), b"done").await.unwrap();
            let written = open.write(b"more").await;
            assert_eq!(written, Err(WriteError::ConnectionLost(ConnectionError::LocallyClosed)));
        };
        // It reads only after the close: the bytes must have arrived all the same.
        let receiving = async {
            let first = far.accept_uni().await.unwrap();
            let second = far.accept_uni().await.unwrap();
            let ConnectionError::ApplicationClosed(close) = far.closed().await else { panic!("lost") };
            assert_eq!((close.error_code, &close.reason[..]), (code(3), &b"done"[..]));
            server.wait_idle().await;
            receive(first, &data).await;
            receive(second, &data).await;
        };
        tokio::join!(sending, receiving);
    });
}

#[test]
fn a_graceful_close_of_a_lost_connection_says_so() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        let mut tx = near.open_uni().await.unwrap();
        near.set_send_window(32 << 20);
        tx.write_all(&pattern(30 << 20, 0)).await.unwrap();
        // More than the windows of a reader that does not read.
        let _rx = far.accept_uni().await.unwrap();
        let closing = tokio::spawn({
            let near = near.clone();
            async move { near.close_gracefully(code(0), b"").await }
        });
        tokio::task::yield_now().await;
        far.close(code(9), b"");
        assert!(matches!(closing.await.unwrap(), Err(ConnectionError::ApplicationClosed(_))));
    });
}

#[test]
fn a_graceful_close_does_not_wait_for_streams_given_up() {
    run(async {
        // RLP would bring all of it.
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport.rlp(RlpMode::Off).stream_receive_window((1_u32 << 20).into());
        });
        let (near, far) = connect(&client, &server).await;
        let (mut reset, mut stopped) = (near.open_uni().await.unwrap(), near.open_uni().await.unwrap());
        // On a short path less is worth storing, and the write would wait for the reader.
        near.set_send_window(8 << 20);
        // More than the windows of a reader that does not read.
        reset.write_all(&pattern(4 << 20, 0)).await.unwrap();
        stopped.write_all(b"unwanted").await.unwrap();
        stopped.set_priority(1).unwrap();
        let _first = far.accept_uni().await.unwrap();
        let closing = tokio::spawn({
            let near = near.clone();
            async move { near.close_gracefully(code(0), b"").await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!closing.is_finished(), "the first stream is not delivered");
        reset.reset(code(1)).unwrap();
        drop(far.accept_uni().await.unwrap());
        assert_eq!(closing.await.unwrap(), Ok(()));
    });
}

#[test]
fn connections_outlive_their_endpoints_handles() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        drop((client, server));
        let data = pattern(1 << 20, 5);
        let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
        let receiving = async { receive(far.accept_uni().await.unwrap(), &data).await };
        tokio::join!(sending, receiving);
        near.close(code(1), b"");
        assert!(matches!(far.closed().await, ConnectionError::ApplicationClosed(_)));
    });
}

#[test]
fn closing_an_endpoint_closes_its_connections_and_frees_its_port() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, _far) = connect(&client, &server).await;
        let address = server.local_addr().unwrap();
        let accepting = tokio::spawn({
            let server = server.clone();
            async move { server.accept().await.is_none() }
        });
        tokio::task::yield_now().await;
        server.close(code(8), b"bye");
        assert!(accepting.await.unwrap());
        let ConnectionError::ApplicationClosed(close) = near.closed().await else {
            panic!("closed otherwise")
        };
        assert_eq!(close.error_code, code(8));
        server.wait_idle().await;
        drop((_far, server));
        let (_, config) = configs(defaults);
        loop {
            // The task notices later.
            match Endpoint::server(config.clone(), address) {
                Ok(_) => break,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn the_end_of_the_runtime_is_an_error_not_a_hang() {
    let other = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (client, _server, near, far) = other.block_on(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        (client, server, near, far)
    });
    other.shutdown_timeout(crate::common::PATIENCE);
    run(async {
        assert!(matches!(near.closed().await, ConnectionError::TransportError(_)));
        assert!(far.accept_uni().await.is_err());
        let refused = client.connect("127.0.0.1:1".parse().unwrap(), SERVER_NAME).err();
        assert_eq!(refused, Some(ConnectError::EndpointStopping));
        client.wait_idle().await;
    });
}

#[test]
fn packets_are_as_long_as_loopback_takes() {
    for rlp in [RlpMode::Off, RlpMode::Trust] {
        for ip in LOOPBACKS {
            run(async {
                let (client, server) = endpoints(ip, |transport| {
                    transport.rlp(rlp);
                });
                let (near, far) = connect(&client, &server).await;
                let data = pattern(20 << 20, 7);
                let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
                let receiving = async { receive(far.accept_uni().await.unwrap(), &data).await };
                tokio::join!(sending, receiving);
                let stats = near.stats();
                assert!(stats.path.current_mtu > 8000, "{stats:?}");
            });
        }
    }
}

#[test]
fn without_rlp_a_connection_is_plain_quic() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport.rlp(RlpMode::Off);
        });
        let (near, far) = connect(&client, &server).await;
        let data = pattern(5 << 20, 6);
        let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
        let receiving = async { receive(far.accept_uni().await.unwrap(), &data).await };
        tokio::join!(sending, receiving);
        assert!(!near.is_rc3() && !far.is_rc3());
        let low = server.stats().low.unwrap_or_default();
        assert_eq!(low.received_datagrams, 0);
    });
}

#[test]
fn a_duplex_stream_echoes_and_half_closes() {
    run(async {
        let (client_config, server_config) = configs(defaults);
        let listener = Listener::bind(server_config, "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let echo = tokio::spawn(async move {
            for _ in 0..3 {
                let (stream, peer) = listener.accept().await.unwrap();
                assert_eq!(stream.peer_addr().unwrap(), peer);
                tokio::spawn(async move {
                    let (mut rx, mut tx) = stream.into_split();
                    tokio::io::copy(&mut rx, &mut tx).await.unwrap();
                });
            }
        });
        let mut client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        client.set_default_client_config(client_config);
        for number in 0..3 {
            let mut stream = Stream::connect(&client, address, SERVER_NAME).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), address);
            assert_eq!(stream.local_addr().unwrap(), client.local_addr().unwrap());
            let data = pattern(3 << 20, number);
            let mut got = Vec::new();
            let (rx, tx) = stream.split();
            let writing = async {
                tx.write_all(&data).await.unwrap();
                tx.shutdown().await.unwrap();
                tx.shutdown().await.unwrap();
            };
            let reading = async { rx.read_to_end(&mut got).await.unwrap() };
            tokio::join!(writing, reading);
            assert!(got == data);
        }
        echo.await.unwrap();
    });
}

#[test]
fn a_server_may_speak_first_on_a_duplex_stream() {
    run(async {
        let (client_config, server_config) = configs(defaults);
        let listener = Listener::bind(server_config, "127.0.0.1:0".parse().unwrap()).unwrap();
        let mut client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        client.set_default_client_config(client_config);
        let address = listener.local_addr().unwrap();
        let data = pattern(2 << 20, 7);
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(&data).await.unwrap();
            // Dropped at once: written bytes still arrive.
        };
        let client = async {
            let mut stream = Stream::connect(&client, address, SERVER_NAME).await.unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).await.unwrap();
            assert!(got == data);
        };
        tokio::join!(server, client);
    });
}

#[test]
fn a_flood_of_low_priority_garbage_costs_the_primary_nothing() {
    run(async {
        // Less in flight than the primary's socket holds: the primary causes no losses itself.
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport.stream_receive_window((1_u32 << 20).into()).receive_window((1_u32 << 20).into());
        });
        let (near, far) = connect(&client, &server).await;
        if server.stats().low.is_none() {
            skipped("a kernel that steers");
            return;
        }
        let target = server.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flood = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                let mut datagram = pattern(1_200, 11);
                let mut sent = 0u64;
                while !stop.load(Relaxed) {
                    // RLP's first byte; every id is tried, no tag is right.
                    datagram[0] = 0x01;
                    datagram[1..9].copy_from_slice(&sent.to_le_bytes());
                    sent += u64::from(socket.send_to(&datagram, target).is_ok());
                }
                sent
            }
        });
        let data = pattern(20 << 20, 8);
        let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
        let receiving = async { receive(far.accept_uni().await.unwrap(), &data).await };
        tokio::join!(sending, receiving);
        stop.store(true, Relaxed);
        let sent = flood.join().unwrap();
        let stats = server.stats();
        let low = stats.low.unwrap();
        assert!(sent > 1_000, "{sent} datagrams are no flood");
        assert!(low.received_datagrams + low.recv_overflows > 1_000, "{low:?}");
        assert_eq!(stats.primary.recv_overflows, 0);
    });
}
