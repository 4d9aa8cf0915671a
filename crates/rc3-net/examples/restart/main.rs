//! A server that is restarted without losing a connection: a second instance takes its port over.
//!
//! Run `cargo run -p rc3-net --example restart -- /run/user/1000/echo`, and the same command again in another terminal,
//! as often as you like: each instance takes over from the one before, which exits when its last connection has ended.
//! Anyone who may connect to the socket at that path can take the port over, so choose a directory that only you can
//! enter.
//!
//! It answers each request with the number of its process and the request. The first instance writes a certificate for
//! `localhost` beside the socket, with the ending `.cert`, which all of them use.

#[cfg(unix)]
mod server;

use std::error::Error;

#[cfg(unix)]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else { return Err("usage: restart PATH [ADDRESS]".into()) };
    let address = arguments.next().as_deref().unwrap_or("127.0.0.1:4433").parse()?;
    server::serve(std::path::Path::new(&path), address).await
}

#[cfg(not(unix))]
fn main() -> Result<(), Box<dyn Error>> {
    Err("this system cannot pass sockets to another process".into())
}
