//! Kernel TCP, without TLS: what the host can do at best.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use socket2::{Domain, Protocol, Socket, Type};

use super::{Answer, BLOCK, ECHO_MAX, Exchange, Result, Service, cpu_time, timed::Last};
use crate::sockets::clock;

/// The two kinds of connection: their first byte.
const BULK: u8 = 0;
const ECHO: u8 = 1;

pub(crate) fn serve(service: Service, address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    // Instead of a certificate.
    println!("00");
    for connection in listener.incoming() {
        let before = cpu_time();
        // A failure of one client ends no other.
        if let Err(error) = connection.map_err(Into::into).and_then(|connection| match service {
            Service::Mirror => answer(connection, before),
            Service::Clock => report_arrival(connection, before),
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

fn report_arrival(mut connection: TcpStream, before: Duration) -> Result<()> {
    let mut block = vec![0; BLOCK];
    // The end of the stream may come later than its last byte.
    let mut last = Last::now();
    while connection.read(&mut block)? > 0 {
        last = Last::now();
    }
    let answer = last.answer((cpu_time() - before).as_secs_f64());
    connection.write_all(answer.text().as_bytes())?;
    Ok(())
}

/// Connects with a congestion control as the kernel names it. Where it is none of those that everybody may use, this
/// needs root.
///
/// # Errors
/// If the kernel has no such congestion control, or the connection fails.
pub fn connect(congestion: &str, address: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(congestion.as_bytes())?;
    socket.connect(&address.into())?;
    let connection = TcpStream::from(socket);
    connection.set_nodelay(true)?;
    Ok(connection)
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

pub(crate) fn time(congestion: &str, address: SocketAddr, bytes: u64, connections: u32) -> Result<()> {
    let block = vec![7; BLOCK];
    for _ in 0..connections {
        let (begun, before) = (clock::now(), cpu_time());
        let mut connection = connect(congestion, address)?;
        let opened = clock::now();
        let answer = Answer::parse(&upload(&mut connection, bytes, &block)?)?;
        answer.timed(begun, opened, (cpu_time() - before).as_secs_f64()).print()?;
    }
    Ok(())
}

pub(crate) fn send(congestion: &str, address: SocketAddr, bytes: u64) -> Result<()> {
    let (begun, before) = (Instant::now(), cpu_time());
    let mut connection = connect(congestion, address)?;
    connection.write_all(&[BULK])?;
    let answer = upload(&mut connection, bytes, &vec![7; BLOCK])?;
    let cpu = (cpu_time() - before).as_secs_f64() + answer.parse::<f64>()?;
    println!("{} {cpu}", begun.elapsed().as_secs_f64());
    Ok(())
}

pub(crate) fn ask(congestion: &str, address: SocketAddr, exchange: &Exchange) -> Result<()> {
    let mut block = vec![7; exchange.bytes];
    let mut connection = None;
    for _ in 0..exchange.count {
        let begun = Instant::now();
        let mut current = match connection.take() {
            Some(connection) => connection,
            None => {
                let mut connection = connect(congestion, address)?;
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
