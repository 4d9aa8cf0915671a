//! A shell over TCP, in place of ssh: what a copy starts there sees the addresses that a server of ssh would report.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    process::{self, Command, Stdio},
    thread,
    time::Duration,
};

use crate::net::transport::Result;

/// Time between the end of a command's input and that of its output.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// Runs the first line of each connection as a command, whose input and output are the rest.
pub(super) fn serve(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("ready");
    loop {
        let (stream, peer) = listener.accept()?;
        thread::spawn(move || {
            if let Err(error) = run(&stream, peer) {
                eprintln!("{error}");
            }
        });
    }
}

fn run(stream: &TcpStream, peer: SocketAddr) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut line = String::new();
    let mut input = BufReader::new(stream.try_clone()?);
    input.read_line(&mut line)?;
    let here = stream.local_addr()?;
    let connection = format!("{} {} {} {}", peer.ip(), peer.port(), here.ip(), here.port());
    let mut command = Command::new("sh");
    command.args(["-c", line.trim_end()]).env("SSH_CONNECTION", connection);
    let output = Stdio::from(OwnedFd::from(stream.try_clone()?));
    let mut child = command.stdin(Stdio::piped()).stdout(output).spawn()?;
    // Reading the line may have read more.
    let mut to = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    thread::spawn(move || copy(&mut input, &mut to));
    child.wait()?;
    // The other side may have gone.
    let _ = stream.shutdown(Shutdown::Both);
    Ok(())
}

/// Connects standard input and output to a shell.
pub(super) fn dial(address: SocketAddr) -> Result<()> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut to = stream.try_clone()?;
    thread::spawn(move || {
        copy(&mut BufReader::new(io::stdin()), &mut to);
        let _ = to.shutdown(Shutdown::Write);
        // A host that has gone with its namespace ends nothing.
        thread::sleep(END_PATIENCE);
        process::exit(1);
    });
    copy(&mut BufReader::new(stream), &mut io::stdout());
    Ok(())
}

/// Passes on what there is at once, up to the end of either side.
fn copy(from: &mut impl BufRead, to: &mut impl Write) {
    while let Ok(bytes) = from.fill_buf() {
        let read = bytes.len();
        if read == 0 || to.write_all(bytes).and_then(|()| to.flush()).is_err() {
            return;
        }
        from.consume(read);
    }
}
