//! Sends numbered datagrams at a steady rate, and counts those that arrive and how long they took; or sends files over
//! kernel TCP one after the other, and measures how long each takes: loads for `forwarder.sh`. Both ends of datagrams
//! must run on one machine, whose clock they share.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant},
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
const BUFFER: usize = 64 << 20;

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
        /// Datagrams in each system call, which the kernel or the device segments
        #[arg(long, default_value_t = 1)]
        batch: u16,
    },
    /// Count
    Receive {
        at: SocketAddr,
        /// Take datagrams that arrived joined, of this many bytes each as IP packets
        #[arg(long)]
        joined: Option<usize>,
    },
    /// Send files over TCP, one after the other
    Files {
        to: SocketAddr,
        /// Bytes of each
        #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000,10000000")]
        sizes: Vec<u64>,
        /// Of each size
        #[arg(long, default_value_t = 20)]
        count: usize,
    },
    /// Receive files until killed
    Serve { at: SocketAddr },
}

fn main() -> io::Result<()> {
    match Arguments::parse().end {
        End::Send { to, rate, time, bytes, dscp, batch } => {
            let gap = bytes as f64 * 8.0 / rate.bits_per_second() as f64;
            send(to, gap, time, bytes, dscp, batch.max(1))
        }
        End::Receive { at, joined } => receive(at, joined),
        End::Files { to, sizes, count } => sizes.into_iter().try_for_each(|size| send_files(to, size, count)),
        End::Serve { at } => serve(at),
    }
}

/// `gap` is the time in seconds from one datagram to the next.
fn send(to: SocketAddr, gap: f64, time: Duration, bytes: usize, dscp: u32, batch: u16) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    SockRef::from(&socket).set_tos_v4(dscp << 2)?;
    // The kernel may give less.
    let _ = SockRef::from(&socket).set_send_buffer_size(BUFFER);
    socket.connect(to)?;
    let bytes = bytes.saturating_sub(HEADERS).max(HEADER);
    if batch > 1 {
        options::segment(&socket, bytes)?;
    }
    let mut datagrams = vec![0; bytes * usize::from(batch)];
    let batches = (time.as_secs_f64() / gap) as u64 / u64::from(batch);
    let begun = now();
    for nth in 0..batches {
        let first = nth * u64::from(batch);
        let due = begun + (first as f64 * gap * 1e9) as u64;
        if let Some(early) = due.checked_sub(now()) {
            thread::sleep(Duration::from_nanos(early));
        }
        for (number, datagram) in (first..).zip(datagrams.chunks_mut(bytes)) {
            datagram[..8].copy_from_slice(&number.to_be_bytes());
            datagram[8..16].copy_from_slice(&now().to_be_bytes());
        }
        socket.send(&datagrams)?;
    }
    let count = batches * u64::from(batch);
    println!("sent {count} in {:.2} s", (now() - begun) as f64 / 1e9);
    datagrams[..8].copy_from_slice(&count.to_be_bytes());
    datagrams[16] = 1;
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(100));
        // The receiver may have gone with the first of them.
        let _ = socket.send(&datagrams[..bytes]);
    }
    Ok(())
}

fn receive(at: SocketAddr, joined: Option<usize>) -> io::Result<()> {
    let socket = UdpSocket::bind(at)?;
    // The kernel may give less; what it drops shows as lost.
    if options::reserve(&socket, BUFFER).is_err() {
        let _ = SockRef::from(&socket).set_recv_buffer_size(BUFFER);
    }
    if joined.is_some() {
        options::join(&socket)?;
    }
    println!("ready");
    let size = joined.map_or(65_536, |bytes| bytes.saturating_sub(HEADERS).max(HEADER));
    let mut delays = Vec::new();
    let (mut sent, mut first, mut last, mut reads) = (0, 0, 0, 0_u64);
    let mut datagrams = vec![0; 65_536];
    let mut ended = false;
    while !ended {
        let read = socket.recv(&mut datagrams);
        let time = now();
        let len = match read {
            Ok(len) => len,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                break;
            }
            Err(error) => return Err(error),
        };
        for datagram in datagrams[..len].chunks(size).filter(|datagram| datagram.len() >= HEADER) {
            let number = u64::from_be_bytes(datagram[..8].try_into().expect("eight bytes"));
            let left = u64::from_be_bytes(datagram[8..16].try_into().expect("eight bytes"));
            if datagram[16] == 1 {
                sent = number;
                ended = true;
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
        reads += u64::from(!ended);
    }
    delays.sort_unstable();
    let received = delays.len() as u64;
    let seconds = (last - first) as f64 / 1e9;
    let millis = |part: f64| {
        let at = (part * delays.len().saturating_sub(1) as f64) as usize;
        delays.get(at).map_or(0.0, |nanos| *nanos as f64 / 1e6)
    };
    println!(
        "received {received} of {sent}, lost {:.3} %, {:.0} packets/s, {:.1} per read, delay median {:.2}, 99 % {:.2}, \
         most {:.2} ms",
        100.0 * (sent.saturating_sub(received)) as f64 / sent.max(1) as f64,
        received as f64 / seconds.max(1e-9),
        received as f64 / reads.max(1) as f64,
        millis(0.5),
        millis(0.99),
        millis(1.0),
    );
    Ok(())
}

/// A file takes from the call of connect until the receiver has confirmed all of it.
fn send_files(to: SocketAddr, size: u64, count: usize) -> io::Result<()> {
    let content = vec![7; 1 << 20];
    let mut times = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(to)?;
        stream.write_all(&size.to_be_bytes())?;
        let mut left = size;
        while left > 0 {
            let now = left.min(content.len() as u64);
            stream.write_all(&content[..now as usize])?;
            left -= now;
        }
        stream.read_exact(&mut [0])?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let millis = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    println!(
        "{size} bytes: median {:.2}, most {:.2} ms",
        millis(times.get(times.len() / 2)),
        millis(times.last())
    );
    Ok(())
}

fn serve(at: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(at)?;
    println!("ready");
    let mut content = vec![0; 1 << 20];
    loop {
        let (mut stream, _) = listener.accept()?;
        let mut size = [0; 8];
        stream.read_exact(&mut size)?;
        let mut left = u64::from_be_bytes(size);
        while left > 0 {
            let now = left.min(content.len() as u64) as usize;
            left -= match stream.read(&mut content[..now])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => read as u64,
            };
        }
        stream.write_all(&[1])?;
    }
}

/// Nanoseconds of the machine's monotonic clock, the same in all processes.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Options of sockets that only Linux has.
mod options {
    use std::{io, net::UdpSocket};

    #[cfg(target_os = "linux")]
    use nix::sys::socket::{setsockopt, sockopt};

    /// Each call sends datagrams of this length.
    #[cfg(target_os = "linux")]
    pub(super) fn segment(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
        let bytes = i32::try_from(bytes).map_err(io::Error::other)?;
        Ok(setsockopt(socket, sockopt::UdpGsoSegment, &bytes)?)
    }

    /// Each call receives all datagrams that arrived together.
    #[cfg(target_os = "linux")]
    pub(super) fn join(socket: &UdpSocket) -> io::Result<()> {
        Ok(setsockopt(socket, sockopt::UdpGroSegment, &true)?)
    }

    /// Sets the size of the receive buffer, also above the system's limit; only root may.
    #[cfg(target_os = "linux")]
    pub(super) fn reserve(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
        Ok(setsockopt(socket, sockopt::RcvBufForce, &bytes)?)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn reserve(_: &UdpSocket, _: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn segment(_: &UdpSocket, _: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn join(_: &UdpSocket) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
