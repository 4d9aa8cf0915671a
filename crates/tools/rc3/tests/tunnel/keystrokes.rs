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

use crate::harness::*;

const MEGABITS: u64 = 20;
const RTT: Duration = Duration::from_millis(60);
/// The first send window, which bulk fills.
const SEND_WINDOW: u64 = 4 << 20;

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
    let (done, filling) = fill(bulk);
    // Long enough for the window to be full.
    thread::sleep(Duration::from_secs(2));
    let (busy, busy_p95) = median(40);
    done.store(true, Ordering::Relaxed);
    let sent = filling.join().unwrap();
    let window = Duration::from_secs_f64(SEND_WINDOW as f64 * 8e-6 / MEGABITS as f64);
    println!(
        "echo: idle {idle:.0?} (p95 {idle_p95:.0?}), beside {sent} bytes of bulk {busy:.0?} (p95 {busy_p95:.0?}); the send window takes {window:.0?}"
    );
    assert!(sent as u64 > SEND_WINDOW, "the bulk transfer did not fill the window");
    // Behind the bulk bytes that are stored, each keystroke would take that long.
    assert!(busy < window / 2, "{busy:?} is not before {window:?}");
}

/// Writes until it is to stop.
fn fill(address: SocketAddr) -> (Arc<AtomicBool>, thread::JoinHandle<usize>) {
    let done = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&done);
    let mut stream = connect(address);
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let filling = thread::spawn(move || {
        let (block, mut sent) = (vec![5; 64 << 10], 0);
        while !until.load(Ordering::Relaxed) {
            sent += stream.write(&block).unwrap();
        }
        sent
    });
    (done, filling)
}
