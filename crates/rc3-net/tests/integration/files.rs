//! Claims about streams between files.
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::common::{code, connect, endpoints, pattern, run};
use rc3_net::{
    Connection, ConnectionError, RlpMode, TransportConfig,
    file::{ReadAt, RecvFileError, SINK_FAILED, SOURCE_FAILED, SendFileError, WriteAt},
};

/// Records the order and offsets of writes.
#[derive(Default)]
struct Memory(Mutex<BTreeMap<u64, Vec<u8>>>);

impl WriteAt for Memory {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        assert!(self.0.lock().unwrap().insert(offset, bytes.to_vec()).is_none(), "each byte comes once");
        Ok(())
    }
}

impl Memory {
    fn content(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for (&offset, bytes) in &*self.0.lock().unwrap() {
            assert_eq!(offset, content.len() as u64);
            content.extend_from_slice(bytes);
        }
        content
    }
}

async fn exchange(
    near: &Connection,
    far: &Connection,
    source: impl ReadAt,
    len: u64,
    sink: impl WriteAt,
    size_max: u64,
) -> (Result<(), SendFileError>, Result<u64, RecvFileError>) {
    let sending = async {
        let mut stream = near.open_uni().await.unwrap();
        stream.send_file(source, len).await?;
        match stream.stopped().await {
            Ok(None) => Ok(()),
            Ok(Some(SINK_FAILED)) => Err(SendFileError::SinkFailed),
            Ok(Some(code)) => Err(SendFileError::Stopped(code)),
            Err(error) => panic!("{error}"),
        }
    };
    let receiving = async { far.accept_uni().await.unwrap().recv_file(sink, size_max).await };
    tokio::join!(sending, receiving)
}

#[test]
fn a_file_arrives_as_it_was_with_and_without_rlp() {
    for rlp in [RlpMode::Trust, RlpMode::Off] {
        run(async {
            let (client, server) = endpoints("127.0.0.1", |transport| {
                transport.rlp(rlp);
            });
            let (near, far) = connect(&client, &server).await;
            let data = pattern(40_000_001, 1);
            let (from, to) = (tempfile(), tempfile());
            from.write_all_at(&data, 0).unwrap();
            let (sent, received) =
                exchange(&near, &far, from, data.len() as u64, to.try_clone().unwrap(), u64::MAX).await;
            sent.unwrap();
            assert_eq!(received.unwrap(), data.len() as u64);
            let mut arrived = vec![0; data.len() + 1];
            let mut read = 0;
            while let Ok(more @ 1..) = to.read_at(&mut arrived[read..], read as u64) {
                read += more;
            }
            assert!(arrived[..read] == data);
        });
    }
}

/// A file that is removed when it is closed.
fn tempfile() -> File {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("rc3-files-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
    let path = std::env::temp_dir().join(name);
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

#[test]
fn what_was_written_before_is_read_before() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| {});
        let (near, far) = connect(&client, &server).await;
        let data = pattern(3_000_000, 2);
        let sink = Arc::new(Memory::default());
        let sending = async {
            let mut stream = near.open_uni().await.unwrap();
            stream.write_all(b"head").await.unwrap();
            stream.send_file(bytes::Bytes::from(data.clone()), data.len() as u64).await.unwrap();
            assert!(stream.finish().is_err(), "the file was the end");
        };
        let receiving = async {
            let mut stream = far.accept_uni().await.unwrap();
            let mut head = [0; 4];
            stream.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"head");
            assert_eq!(stream.recv_file(sink.clone(), u64::MAX).await.unwrap(), data.len() as u64);
        };
        tokio::join!(sending, receiving);
        assert!(sink.content() == data);
    });
}

/// A piece that is taken leaves others that have been fetched with it.
#[test]
fn pieces_that_were_fetched_before_belong_to_the_file() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| {});
        let (near, far) = connect(&client, &server).await;
        for len in [100, 3_000_000] {
            let data = pattern(len, 2);
            let sink = Arc::new(Memory::default());
            let sending = async {
                let mut stream = near.open_uni().await.unwrap();
                stream.write_all(&[b"head", &data[..]].concat()).await.unwrap();
                stream.finish().unwrap();
                stream.stopped().await.unwrap();
            };
            let receiving = async {
                let mut stream = far.accept_uni().await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
                let head = stream.read_chunk(4, true).await.unwrap().unwrap();
                assert_eq!(&head.bytes[..], b"head");
                assert_eq!(stream.recv_file(sink.clone(), u64::MAX).await.unwrap(), len as u64);
            };
            tokio::join!(sending, receiving);
            assert!(sink.content() == data, "{len}");
        }
    });
}

#[test]
fn empty_files_are_files() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| {});
        let (near, far) = connect(&client, &server).await;
        let (sent, received) = exchange(&near, &far, bytes::Bytes::new(), 0, Memory::default(), 0).await;
        sent.unwrap();
        assert_eq!(received.unwrap(), 0);
    });
}

/// A source that fails, ends or hangs beyond an offset.
struct Faulty {
    from: u64,
    fault: fn() -> io::Result<usize>,
}

impl ReadAt for Faulty {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        // Reads may be interrupted, and short.
        static INTERRUPT: AtomicBool = AtomicBool::new(false);
        if INTERRUPT.fetch_xor(true, Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if offset >= self.from { (self.fault)() } else { Ok(buf.len().min(10_000)) }
    }
}

const LEN: u64 = 20_000_000;

#[test]
fn a_source_that_cannot_be_read_is_an_error_at_both_ends() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| {});
        let (near, far) = connect(&client, &server).await;
        let source = Faulty { from: LEN / 2, fault: || Err(io::Error::other("bad sector")) };
        let (sent, received) = exchange(&near, &far, source, LEN, Memory::default(), LEN).await;
        let Err(SendFileError::Read { offset, error }) = sent else { panic!("{sent:?}") };
        assert!(offset >= LEN / 2 && error.to_string() == "bad sector");
        assert!(matches!(received, Err(RecvFileError::SourceFailed)), "{received:?}");
        // The connection still works.
        let data = bytes::Bytes::from(pattern(100_000, 3));
        let (sent, received) = exchange(&near, &far, data, 100_000, Memory::default(), LEN).await;
        sent.unwrap();
        assert_eq!(received.unwrap(), 100_000);
    });
}

#[test]
fn a_source_that_shrank_is_an_error_at_both_ends_and_one_that_grew_is_none() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| {});
        let (near, far) = connect(&client, &server).await;
        let source = Faulty { from: LEN / 2, fault: || Ok(0) };
        let (sent, received) = exchange(&near, &far, source, LEN, Memory::default(), LEN).await;
        assert!(matches!(sent, Err(SendFileError::Shrunk(at)) if at >= LEN / 2), "{sent:?}");
        assert!(matches!(received, Err(RecvFileError::SourceFailed)), "{received:?}");
        let source = bytes::Bytes::from(pattern(2_000_000, 4));
        let sink = Arc::new(Memory::default());
        let (sent, received) = exchange(&near, &far, source.clone(), 1_000_000, sink.clone(), LEN).await;
        sent.unwrap();
        assert_eq!(received.unwrap(), 1_000_000);
        assert!(sink.content() == source[..1_000_000]);
    });
}

/// A sink with little room.
struct Full(u64);

impl WriteAt for Full {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset + bytes.len() as u64 > self.0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// Receive windows that a file of [`LEN`] bytes fills many times: with larger ones the whole file may have arrived
/// before its receiver refuses it, and then its sender has succeeded.
fn far_below_the_file(transport: &mut TransportConfig) {
    transport.stream_receive_window((1_u32 << 20).into()).receive_window((1_u32 << 20).into());
}

#[test]
fn a_full_sink_is_an_error_at_both_ends() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", far_below_the_file);
        let (near, far) = connect(&client, &server).await;
        let source = Faulty { from: u64::MAX, fault: || unreachable!() };
        let (sent, received) = exchange(&near, &far, source, LEN, Full(LEN / 2), LEN).await;
        let Err(RecvFileError::Write { error, .. }) = received else { panic!("{received:?}") };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(matches!(sent, Err(SendFileError::SinkFailed)), "{sent:?}");
    });
}

#[test]
fn a_full_sink_is_an_error_even_if_nothing_more_comes() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| {});
        let (near, far) = connect(&client, &server).await;
        let sending = async {
            let mut stream = near.open_uni().await.unwrap();
            stream.write_all(&pattern(300_000, 3)).await.unwrap();
            stream.stopped().await.unwrap()
        };
        let receiving = async { far.accept_uni().await.unwrap().recv_file(Full(0), LEN).await };
        let both = async { tokio::join!(sending, receiving) };
        let both = tokio::time::timeout(Duration::from_secs(5), both).await;
        let (stopped, received) = both.expect("it waited for more");
        assert!(matches!(received, Err(RecvFileError::Write { .. })), "{received:?}");
        assert_eq!(stopped, Some(SINK_FAILED));
    });
}

#[test]
fn more_than_the_receiver_wants_is_refused() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", far_below_the_file);
        let (near, far) = connect(&client, &server).await;
        let source = Faulty { from: u64::MAX, fault: || unreachable!() };
        let (sent, received) = exchange(&near, &far, source, LEN, Full(LEN / 2), LEN / 2).await;
        assert!(matches!(received, Err(RecvFileError::TooLong)), "{received:?}");
        assert!(matches!(sent, Err(SendFileError::SinkFailed)), "{sent:?}");
    });
}

/// A slow sink.
struct Slow(Memory);

impl WriteAt for Slow {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        std::thread::sleep(Duration::from_micros(bytes.len() as u64 / 50));
        self.0.write_all_at(bytes, offset)
    }
}

#[test]
fn a_slow_sink_bounds_what_waits_for_it() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| {});
        let (near, far) = connect(&client, &server).await;
        let data = bytes::Bytes::from(pattern(60_000_000, 5));
        let sink = Arc::new(Slow(Memory::default()));
        let most = async {
            let mut most = 0;
            loop {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(5)) => {}
                    _ = near.closed() => return most,
                }
                most = most.max(far.stats().received.buffered_bytes);
            }
        };
        let transfer = async {
            let (sent, received) =
                exchange(&near, &far, data.clone(), 60_000_000, sink.clone(), LEN * 9).await;
            sent.unwrap();
            assert_eq!(received.unwrap(), 60_000_000);
            near.close(code(0), b"");
        };
        let (most, ()) = tokio::join!(most, transfer);
        assert!(most > 0 && most < 24 << 20, "{most} bytes waited");
        assert!(sink.0.content() == data);
    });
}

#[test]
fn a_send_that_is_dropped_resets_the_stream() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| {});
        let (near, far) = connect(&client, &server).await;
        let mut stream = near.open_uni().await.unwrap();
        let receiving = async { far.accept_uni().await.unwrap().recv_file(Memory::default(), LEN).await };
        let sending = async {
            let slow = Faulty {
                from: LEN / 2,
                fault: || {
                    std::thread::sleep(Duration::from_millis(20));
                    Ok(1)
                },
            };
            let cut = tokio::time::timeout(Duration::from_millis(200), stream.send_file(slow, LEN)).await;
            assert!(cut.is_err(), "{cut:?}");
        };
        let ((), received) = tokio::join!(sending, receiving);
        assert!(matches!(received, Err(RecvFileError::SourceFailed)), "{received:?}");
        assert_eq!(SOURCE_FAILED.into_inner(), 0x7263_3381);
    });
}

#[test]
fn a_sink_is_free_when_its_stream_was_reset() {
    /// One whose writes take longer than anything else here.
    struct Sluggish(AtomicU64);

    impl WriteAt for Sluggish {
        fn write_all_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
            self.0.fetch_add(1, Relaxed);
            std::thread::sleep(Duration::from_millis(300));
            Ok(())
        }
    }

    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| {});
        let (near, far) = connect(&client, &server).await;
        let sink = Arc::new(Sluggish(AtomicU64::new(0)));
        let sending = async {
            let mut stream = near.open_uni().await.unwrap();
            stream.write_all(&pattern(4_000_000, 6)).await.unwrap();
            while sink.0.load(Relaxed) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            stream.reset(code(7)).unwrap();
            // It is reset, not closed with its connection.
            far.closed().await
        };
        let receiving = async {
            let received = far.accept_uni().await.unwrap().recv_file(sink.clone(), LEN * 9).await;
            assert!(matches!(received, Err(RecvFileError::Reset(reset)) if reset == code(7)), "{received:?}");
            assert_eq!(Arc::strong_count(&sink), 1, "a write goes on");
            far.close(code(0), b"");
        };
        tokio::join!(sending, receiving);
    });
}

#[test]
fn a_receiver_that_vanishes_is_noticed() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport.max_idle_timeout(Some(Duration::from_millis(500).try_into().unwrap()));
        });
        let (near, far) = connect(&client, &server).await;
        let source = Faulty { from: u64::MAX, fault: || unreachable!() };
        let mut stream = near.open_uni().await.unwrap();
        let vanishing = async {
            let stream = far.accept_uni().await.unwrap();
            far.close(code(9), b"gone");
            drop(stream);
        };
        let (sent, ()) = tokio::join!(stream.send_file(source, LEN * 100), vanishing);
        let Err(SendFileError::ConnectionLost(ConnectionError::ApplicationClosed(close))) = sent else {
            panic!("{sent:?}")
        };
        assert_eq!(close.error_code, code(9));
    });
}
