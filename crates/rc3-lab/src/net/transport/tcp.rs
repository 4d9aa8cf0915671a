//! Kernel TCP, without TLS: what the host can do at best.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{
    BLOCK, CONTENT, ECHO, ECHO_MAX, Exchange, PROGRESS, ReceiverReport, Result, Task, Timed, cpu_time,
};
use crate::net::clock;

/// The congestion control of everybody else, as the kernel names it.
pub(super) const CUBIC: &str = "cubic";

/// How often the bytes of a stream are printed.
const EVERY: u64 = Duration::from_millis(10).as_nanos() as u64;

pub(super) fn serve(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    // Instead of a certificate.
    println!("00");
    for connection in listener.incoming() {
        let connection = connection?;
        thread::spawn(move || {
            // A flow whose sender was ended is no fault.
            let _ = answer(connection);
        });
    }
    Ok(())
}

fn answer(mut connection: TcpStream) -> Result<()> {
    let before = cpu_time();
    connection.set_nodelay(true)?;
    let mut kind = [0];
    connection.read_exact(&mut kind)?;
    match kind[0] {
        ECHO => {
            let mut len = [0; 4];
            connection.read_exact(&mut len)?;
            let mut block = vec![0; (u32::from_be_bytes(len) as usize).min(ECHO_MAX)];
            while connection.read_exact(&mut block).is_ok() {
                connection.write_all(&block)?;
            }
        }
        PROGRESS => print_progress(connection)?,
        _ => {
            let mut block = vec![0; BLOCK];
            // The end of the stream may come later than its last byte.
            let mut last = clock::now();
            while connection.read(&mut block)? > 0 {
                last = clock::now();
            }
            let answer = ReceiverReport { last, cpu: (cpu_time() - before).as_secs_f64() };
            serde_json::to_writer(connection, &answer)?;
        }
    }
    Ok(())
}

/// Prints `TIME BYTES` every 10 ms; times are nanoseconds of [`clock::now`].
fn print_progress(mut connection: TcpStream) -> Result<()> {
    let mut block = vec![0; BLOCK];
    let (mut received, mut next) = (1, clock::now());
    loop {
        let read = connection.read(&mut block)?;
        if read == 0 {
            return Ok(());
        }
        received += read as u64;
        let now = clock::now();
        if now >= next {
            next = now + EVERY;
            println!("{now} {received}");
        }
    }
}

/// Connects with a congestion control as the kernel names it. Where it is none of those that everybody may use, this
/// needs root.
fn connect(congestion: &str, address: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(congestion.as_bytes())?;
    socket.connect(&address.into())?;
    let connection = TcpStream::from(socket);
    connection.set_nodelay(true)?;
    Ok(connection)
}

/// Sends until the process is ended, with this code point.
///
/// # Errors
/// If the kernel has no such congestion control, or the connection fails.
pub fn send_forever(address: SocketAddr, dscp: u8) -> Result<()> {
    let mut connection = connect(CUBIC, address)?;
    SockRef::from(&connection).set_tos_v4(u32::from(dscp) << 2)?;
    let block = vec![PROGRESS; BLOCK >> 4];
    loop {
        connection.write_all(&block)?;
    }
}

pub(super) fn run(congestion: &str, address: SocketAddr, task: Task) -> Result<()> {
    match task {
        Task::Time(bytes, connections) => {
            for _ in 0..connections {
                println!("{}", serde_json::to_string(&flow(congestion, address, bytes)?)?);
            }
            Ok(())
        }
        Task::Ask(exchange) => ask(congestion, address, &exchange),
        Task::Hold => Err("kernel TCP has no streams".into()),
    }
}

pub(super) fn flow(congestion: &str, address: SocketAddr, bytes: u64) -> Result<Timed> {
    let (begun, before) = (clock::now(), cpu_time());
    let mut connection = connect(congestion, address)?;
    let opened = clock::now();
    let mut left = bytes;
    while left > 0 {
        let len = left.min(BLOCK as u64);
        connection.write_all(&CONTENT[..len as usize])?;
        left -= len;
    }
    connection.shutdown(Shutdown::Write)?;
    let answer: ReceiverReport = serde_json::from_reader(connection)?;
    Ok(answer.timed(begun, opened, (cpu_time() - before).as_secs_f64()))
}

fn ask(congestion: &str, address: SocketAddr, exchange: &Exchange) -> Result<()> {
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
