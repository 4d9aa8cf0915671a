//! A file over one TCP connection, and when packets arrive.

use std::{
    fs::{self, File},
    io::{self, Read},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    thread,
    time::Duration,
};

use crate::net::{clock, transport::Result};

/// How often counters are read.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Packets of fewer bytes are of no content.
const CONTENT_MIN: u64 = 1000;
/// What arrives after a pause of so many nanoseconds is printed.
const PAUSE: u64 = 500_000_000;

/// Sends a file, and ends when the other side has all of it.
pub(super) fn upload(address: SocketAddr, file: &Path) -> Result<()> {
    // The tunnel may come up later.
    let mut stream = loop {
        match TcpStream::connect(address) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => thread::sleep(LOOK_EVERY),
            connected => break connected?,
        }
    };
    io::copy(&mut File::open(file)?, &mut stream)?;
    stream.shutdown(Shutdown::Write)?;
    let mut last = [0];
    stream.read_exact(&mut last)?;
    Ok(())
}

/// Writes what arrives into a file, and answers its end by a byte.
pub(super) fn collect(address: SocketAddr, file: &Path) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("ready");
    let (mut stream, _) = listener.accept()?;
    io::copy(&mut stream, &mut File::create(file)?)?;
    Ok(io::Write::write_all(&mut stream, &[0])?)
}

/// Prints the time when content arrives at a device after a pause, in nanoseconds.
pub(super) fn arrivals(device: &str) -> Result<()> {
    let counter = format!("/sys/class/net/{device}/statistics/rx_bytes");
    let read = || Ok::<u64, io::Error>(fs::read_to_string(&counter)?.trim().parse().unwrap_or(0));
    let (mut before, mut last) = (read()?, 0);
    loop {
        let (now, bytes) = (clock::now(), read()?);
        if bytes - before >= CONTENT_MIN {
            if now - last > PAUSE {
                println!("{now}");
            }
            last = now;
        }
        before = bytes;
        thread::sleep(LOOK_EVERY);
    }
}
