//! The receiver of TCP flows of others.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use crate::sockets::{clock, contenders::Result};

/// How often the bytes of a long flow are printed.
const EVERY: u64 = Duration::from_millis(10).as_nanos() as u64;
const BLOCK: usize = 256 << 10;

/// The first bytes of each flow, which count as part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Before its connection was made, nanoseconds of [`clock::now`].
    pub(super) begun: u64,
    /// Of the flow; 0 is a long one.
    pub(super) bytes: u64,
}

impl Header {
    pub(super) const LEN: usize = 16;

    pub(super) fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.begun.to_be_bytes());
        bytes[8..].copy_from_slice(&self.bytes.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8; Self::LEN]) -> Self {
        let number = |range: std::ops::Range<usize>| {
            bytes[range].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        Self { begun: number(0..8), bytes: number(8..16) }
    }
}

/// Receives until the process is ended. Prints `flow BEGUN BYTES ARRIVED` for a flow that has ended and
/// `long TIME BYTES` every 10 ms for one without an end; times are nanoseconds of [`clock::now`].
pub(super) fn run(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("ready");
    for connection in listener.incoming() {
        let connection = connection?;
        thread::spawn(move || {
            // The flow of a process that was ended has no end, and is no flow to report.
            let _ = receive(connection);
        });
    }
    Ok(())
}

fn receive(mut connection: TcpStream) -> Result<()> {
    let mut header = [0; Header::LEN];
    connection.read_exact(&mut header)?;
    let Header { begun, bytes } = Header::decode(&header);
    let mut received = Header::LEN as u64;
    let mut block = vec![0; BLOCK];
    let mut next = clock::now();
    loop {
        if bytes == received {
            return print(format_args!("flow {begun} {bytes} {}", clock::now()));
        }
        let read = connection.read(&mut block)?;
        if read == 0 {
            return Ok(());
        }
        received += read as u64;
        let now = clock::now();
        if bytes == 0 && now >= next {
            next = now + EVERY;
            print(format_args!("long {now} {received}"))?;
        }
    }
}

fn print(line: std::fmt::Arguments<'_>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back() {
        let header = Header { begun: 0x0102_0304_0506_0708, bytes: 3_000_000 };
        assert_eq!(Header::decode(&header.encode()), header);
    }
}
