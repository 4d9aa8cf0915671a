//! Keystrokes beside a bulk transfer through the same tunnel, over an emulated wide-area link.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rc3::emulator::{EmulatorConfig, LinkEmulator};
use rc3_core::units::Rate;

use super::harness::*;

const MEGABITS: u64 = 20;
const RTT: Duration = Duration::from_millis(60);
/// The bulk connections: together they fill the send window of the tunnel.
const BULK: usize = 100;
/// Bytes of each that go in its turn, at least: four packets.
const TURN: usize = 4 * 1380;
const SEND_WINDOW: u64 = 64 << 20;

#[test]
fn keystrokes_do_not_wait_behind_bulk() {
    let server = Server::start(&[]);
    let rate = Rate::from_bits_per_second(MEGABITS * 1_000_000).unwrap();
    let link = LinkEmulator::start(EmulatorConfig::new(rate, RTT), server.address).unwrap();
    let ticket = server.ticket.replace(&server.address.to_string(), &link.client_addr().to_string());
    let (echo, sink) = (echo(), target(|mut stream| drop(std::io::copy(&mut stream, &mut std::io::sink()))));
    let state = tempfile::tempdir().unwrap();
    let flags = [format!("--stdio={echo}"), "-L".to_owned(), forward(sink)];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut process = stdio(state.path(), &flags, Some(&ticket));
    let bulk = process.address();
    let (mut input, mut output) = (process.child.stdin.take().unwrap(), process.child.stdout.take().unwrap());
    let mut stroke = || {
        let began = Instant::now();
        input.write_all(b"k").unwrap();
        output.read_exact(&mut [0]).unwrap();
        began.elapsed()
    };
    let mut median = |strokes: usize| {
        let mut times: Vec<Duration> = (0..strokes)
            .map(|_| {
                thread::sleep(Duration::from_millis(20));
                stroke()
            })
            .collect();
        times.sort();
        (times[strokes / 2], times[strokes * 95 / 100])
    };
    let (idle, idle_p95) = median(10);
    let done = Arc::new(AtomicBool::new(false));
    let filling: Vec<_> = (0..BULK).map(|_| fill(bulk, &done)).collect();
    // Long enough for the window to be full.
    thread::sleep(Duration::from_secs(2));
    let (busy, busy_p95) = median(40);
    done.store(true, Ordering::Relaxed);
    // Blocked writers end with the tunnel.
    drop((input, output));
    drop(process);
    let sent: usize = filling.into_iter().map(|filling| filling.join().unwrap()).sum();
    // Without priority a keystroke waits for a turn of all others, besides the queue of one more round trip.
    let turns = Duration::from_secs_f64((BULK * TURN) as f64 * 8e-6 / MEGABITS as f64);
    println!(
        "echo: idle {idle:.0?} (p95 {idle_p95:.0?}), beside {sent} bytes of bulk {busy:.0?} (p95 {busy_p95:.0?}); a turn of all takes {turns:.0?}"
    );
    assert!(sent as u64 > SEND_WINDOW, "the bulk transfer did not fill the window");
    assert!(busy < 2 * RTT + turns / 2, "{busy:?} with a turn of {turns:?}");
}

/// Writes until it is to stop; returns how much.
fn fill(address: SocketAddr, done: &Arc<AtomicBool>) -> thread::JoinHandle<usize> {
    let done = Arc::clone(done);
    let mut stream = connect(address);
    thread::spawn(move || {
        let (block, mut sent) = (vec![5; 64 << 10], 0);
        while !done.load(Ordering::Relaxed)
            && let Ok(bytes) = stream.write(&block)
        {
            sent += bytes;
        }
        sent
    })
}
