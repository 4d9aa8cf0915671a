//! Sends numbered datagrams at a steady rate, and counts those that arrive and how long they took: a load for
//! `forwarder.sh`. Both ends must run on one machine, whose clock they share.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    thread,
    time::Duration,
};

use clap::{Parser, Subcommand};
use rc3_lab::sockets::quantity::parse_rate;
use rc3_text::units::parse_time;
use rustix::time::{ClockId, clock_gettime};
use socket2::SockRef;

/// Number, time, and whether it is the last one.
const HEADER: usize = 8 + 8 + 1;
/// IPv4 and UDP.
const HEADERS: usize = 28;
/// A receiver ends so long after the last datagram, if the mark of the end is lost.
const SILENCE: Duration = Duration::from_secs(2);
/// Room for what comes while a receiver does not run.
const BUFFER: usize = 8 << 20;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    end: End,
}

#[derive(Subcommand)]
enum End {
    /// Send
    Send {
        to: SocketAddr,
        /// Of IP packets
        #[arg(long, default_value = "1gbit", value_parser = parse_rate)]
        rate: rc3_core::units::Rate,
        #[arg(long, default_value = "5s", value_parser = parse_time)]
        time: Duration,
        /// Of an IP packet
        #[arg(long, default_value_t = 1500)]
        bytes: usize,
        #[arg(long, default_value_t = 0)]
        dscp: u32,
    },
    /// Count
    Receive { at: SocketAddr },
}

fn main() -> io::Result<()> {
    match Arguments::parse().end {
        End::Send { to, rate, time, bytes, dscp } => {
            let gap = bytes as f64 * 8.0 / rate.bits_per_second() as f64;
            send(to, Duration::from_secs_f64(gap), time, bytes, dscp)
        }
        End::Receive { at } => receive(at),
    }
}

fn send(to: SocketAddr, gap: Duration, time: Duration, bytes: usize, dscp: u32) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    SockRef::from(&socket).set_tos_v4(dscp << 2)?;
    socket.connect(to)?;
    let mut datagram = vec![0; bytes.saturating_sub(HEADERS).max(HEADER)];
    let count = (time.as_nanos() / gap.as_nanos().max(1)) as u64;
    let begun = now();
    for number in 0..count {
        let due = begun + number * gap.as_nanos() as u64;
        if let Some(early) = due.checked_sub(now()) {
            thread::sleep(Duration::from_nanos(early));
        }
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        datagram[8..16].copy_from_slice(&now().to_be_bytes());
        socket.send(&datagram)?;
    }
    println!("sent {count} in {:.2} s", (now() - begun) as f64 / 1e9);
    datagram[..8].copy_from_slice(&count.to_be_bytes());
    datagram[16] = 1;
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(100));
        // The receiver may have gone with the first of them.
        let _ = socket.send(&datagram);
    }
    Ok(())
}

fn receive(at: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind(at)?;
    // The kernel may give less; what it drops shows as lost.
    let _ = SockRef::from(&socket).set_recv_buffer_size(BUFFER);
    println!("ready");
    let mut delays = Vec::new();
    let (mut sent, mut first, mut last) = (0, 0, 0);
    let mut datagram = vec![0; 65_536];
    loop {
        let read = socket.recv(&mut datagram);
        let time = now();
        match read {
            Ok(len) if len >= HEADER => {
                let number = u64::from_be_bytes(datagram[..8].try_into().expect("eight bytes"));
                let left = u64::from_be_bytes(datagram[8..16].try_into().expect("eight bytes"));
                if datagram[16] == 1 {
                    sent = number;
                    break;
                }
                sent = sent.max(number + 1);
                if delays.is_empty() {
                    socket.set_read_timeout(Some(SILENCE))?;
                    first = time;
                }
                last = time;
                delays.push(time.saturating_sub(left));
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                break;
            }
            Err(error) => return Err(error),
        }
    }
    delays.sort_unstable();
    let received = delays.len() as u64;
    let seconds = (last - first) as f64 / 1e9;
    let millis = |part: f64| {
        let at = (part * delays.len().saturating_sub(1) as f64) as usize;
        delays.get(at).map_or(0.0, |nanos| *nanos as f64 / 1e6)
    };
    println!(
        "received {received} of {sent}, lost {:.3} %, {:.0} packets/s, delay median {:.2}, 99 % {:.2}, most {:.2} ms",
        100.0 * (sent.saturating_sub(received)) as f64 / sent.max(1) as f64,
        received as f64 / seconds.max(1e-9),
        millis(0.5),
        millis(0.99),
        millis(1.0),
    );
    Ok(())
}

/// Nanoseconds of the machine's monotonic clock, the same in all processes.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
