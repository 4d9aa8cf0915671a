//! Kernel TCP, without TLS: what the host can do at best.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use rc3_lab::sockets::clock;
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    Result,
    contender::Service,
    latency::Exchange,
    quic::{BLOCK, ECHO_MAX, cpu_time},
};

/// The two kinds of connection, told by their first byte.
const BULK: u8 = 0;
const ECHO: u8 = 1;

/// As the kernel calls it. Where it is none of those that everybody may use, this needs root.
const CUBIC: &[u8] = b"cubic";

pub(crate) fn serve(service: Service, address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    // In place of a certificate.
    println!("00");
    for connection in listener.incoming() {
        let before = cpu_time();
        // The next client is no affair of this one's failure.
        if let Err(error) = connection.map_err(Into::into).and_then(|connection| match service {
            Service::Mirror => answer(connection, before),
            Service::Clock => tell_arrival(connection),
        }) {
            eprintln!("server: {error}");
        }
    }
    Ok(())
}

fn answer(mut connection: TcpStream, before: Duration) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut kind = [0];
    connection.read_exact(&mut kind)?;
    if kind[0] == ECHO {
        let mut len = [0; 4];
        connection.read_exact(&mut len)?;
        let mut block = vec![0; (u32::from_be_bytes(len) as usize).min(ECHO_MAX)];
        while connection.read_exact(&mut block).is_ok() {
            connection.write_all(&block)?;
        }
        return Ok(());
    }
    let mut block = vec![0; BLOCK];
    while connection.read(&mut block)? > 0 {}
    connection.write_all((cpu_time() - before).as_secs_f64().to_string().as_bytes())?;
    Ok(())
}

fn tell_arrival(mut connection: TcpStream) -> Result<()> {
    let mut block = vec![0; BLOCK];
    // The end of the stream may come later than its last byte.
    let mut last = clock::now();
    while connection.read(&mut block)? > 0 {
        last = clock::now();
    }
    connection.write_all(last.to_string().as_bytes())?;
    Ok(())
}

/// Sends so many bytes and returns the answer.
fn upload(connection: &mut TcpStream, bytes: u64, block: &[u8]) -> Result<String> {
    let mut left = bytes;
    while left > 0 {
        let len = left.min(block.len() as u64);
        connection.write_all(&block[..len as usize])?;
        left -= len;
    }
    connection.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}

pub(crate) fn time(address: SocketAddr, bytes: u64) -> Result<()> {
    let block = vec![7; BLOCK];
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(CUBIC)?;
    socket.connect(&address.into())?;
    let mut connection = TcpStream::from(socket);
    connection.set_nodelay(true)?;
    let begun = clock::now();
    let arrived: u64 = upload(&mut connection, bytes, &block)?.parse()?;
    println!("{}", arrived.saturating_sub(begun) as f64 / 1e9);
    Ok(())
}

pub(crate) fn send(address: SocketAddr, bytes: u64) -> Result<()> {
    let (begun, before) = (Instant::now(), cpu_time());
    let mut connection = TcpStream::connect(address)?;
    connection.write_all(&[BULK])?;
    let answer = upload(&mut connection, bytes, &vec![7; BLOCK])?;
    let cpu = (cpu_time() - before).as_secs_f64() + answer.parse::<f64>()?;
    println!("{} {cpu}", begun.elapsed().as_secs_f64());
    Ok(())
}

pub(crate) fn ask(address: SocketAddr, exchange: &Exchange) -> Result<()> {
    let mut block = vec![7; exchange.bytes];
    let mut connection = None;
    for _ in 0..exchange.count {
        let begun = Instant::now();
        let mut current = match connection.take() {
            Some(connection) => connection,
            None => {
                let mut connection = TcpStream::connect(address)?;
                connection.set_nodelay(true)?;
                connection.write_all(&[ECHO])?;
                connection.write_all(&(exchange.bytes as u32).to_be_bytes())?;
                connection
            }
        };
        current.write_all(&block)?;
        current.read_exact(&mut block)?;
        print!("{} ", begun.elapsed().as_micros());
        if !exchange.new_connections {
            connection = Some(current);
        }
    }
    println!();
    Ok(())
}
