//! A long flow.

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
};

use socket2::SockRef;

use super::sink::Header;
use crate::sockets::{
    clock,
    contenders::{Result, connect_tcp},
};

/// Bytes of one write.
const BLOCK: usize = 64 << 10;

/// Sends until the process is ended.
pub(super) fn run(congestion: &str, address: SocketAddr, dscp: u32) -> Result<()> {
    let mut connection = connect_tcp(congestion, address)?;
    SockRef::from(&connection).set_tos_v4(dscp << 2)?;
    connection.write_all(&Header { begun: clock::now(), bytes: 0 }.encode())?;
    let block = vec![7; BLOCK];
    loop {
        connection.write_all(&block)?;
    }
}

/// Sends a flow of so many bytes, the header included.
pub(super) fn flow(connection: &mut TcpStream, begun: u64, bytes: u64) -> Result<()> {
    connection.write_all(&Header { begun, bytes }.encode())?;
    let block = vec![7; BLOCK];
    let mut left = bytes.saturating_sub(Header::LEN as u64);
    while left > 0 {
        let len = left.min(BLOCK as u64);
        connection.write_all(&block[..len as usize])?;
        left -= len;
    }
    Ok(())
}
