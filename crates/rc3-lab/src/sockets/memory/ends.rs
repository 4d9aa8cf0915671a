//! The two ends of the connections. The transports name things alike, so one text serves both.

/// Bytes of a request, its answer, and of the first write of a stream that stays open.
const BYTES: usize = 64;

/// The first byte of a stream: the server answers and the stream ends.
const ANSWER: u8 = 1;

/// The same: the stream stays open.
const KEEP: u8 = 2;

/// Bytes of one write on a stream that nobody reads.
const WRITE: usize = 64 << 10;

/// Handshakes and exchanges at a time: more would overflow the socket's buffer.
const PARALLEL: usize = 50;

macro_rules! ends {
    ($name:ident, $library:ident) => {
        pub(crate) mod $name {
            use std::{
                io::BufRead,
                net::SocketAddr,
                sync::{
                    Arc,
                    atomic::{AtomicU64, Ordering::Relaxed},
                },
            };

            use tokio::{sync::Semaphore, task::JoinSet};
            use $library::{Connection, Endpoint, RecvStream, SendStream};

            use super::{
                super::{
                    Result,
                    limits::Limits,
                    transport::{Transport, $name as endpoints},
                },
                ANSWER, BYTES, KEEP, PARALLEL, WRITE,
            };

            /// A stream that stays open.
            type Open = (SendStream, RecvStream);

            #[tokio::main]
            pub(crate) async fn serve(transport: Transport, limits: Limits) -> Result<()> {
                let (endpoint, certificate) = endpoints::server(transport, limits)?;
                println!("{}\n{certificate}", endpoint.local_addr()?);
                let reported = endpoint.clone();
                // Any line asks how many bytes the endpoint counts.
                std::thread::spawn(move || {
                    for _ in std::io::stdin().lock().lines() {
                        println!("{}", endpoints::held(&reported));
                    }
                });
                while let Some(incoming) = endpoint.accept().await {
                    tokio::spawn(async move {
                        if let Ok(connection) = incoming.await {
                            // The client notices.
                            let _ = serve_connection(connection).await;
                        }
                    });
                }
                Ok(())
            }

            async fn serve_connection(connection: Connection) -> Result<()> {
                let mut open = Vec::new();
                loop {
                    let (mut send, mut recv) = connection.accept_bi().await?;
                    let mut request = [0; BYTES];
                    recv.read_exact(&mut request).await?;
                    send.write_all(&request).await?;
                    match request[0] {
                        ANSWER => send.finish()?,
                        _ => open.push((send, recv)),
                    }
                }
            }

            #[tokio::main]
            pub(crate) async fn hold(
                transport: Transport,
                address: SocketAddr,
                certificate: &str,
                limits: Limits,
            ) -> Result<()> {
                let mut held = Held {
                    endpoint: endpoints::client(transport, certificate, limits)?,
                    address,
                    connections: Vec::new(),
                    open: Vec::new(),
                    written: Arc::default(),
                };
                for line in std::io::stdin().lock().lines() {
                    let line = line?;
                    let (command, count) = line.split_once(' ').unwrap_or((&line, "1"));
                    match (command, count.parse()?) {
                        ("connect", count) => held.connect(count).await?,
                        ("exchange", _) => held.exchange(1, ANSWER).await?,
                        ("open", count) => held.exchange(count, KEEP).await?,
                        ("write", count) => held.write(count),
                        ("written", _) => {
                            println!("{}", held.written.load(Relaxed));
                            continue;
                        }
                        _ => return Err(format!("unknown command: {line}").into()),
                    }
                    println!("done");
                }
                Ok(())
            }

            /// What the client has.
            struct Held {
                endpoint: Endpoint,
                address: SocketAddr,
                connections: Vec<Connection>,
                open: Vec<Open>,
                /// Bytes that streams without a reader have accepted.
                written: Arc<AtomicU64>,
            }

            impl Held {
                async fn connect(&mut self, count: usize) -> Result<()> {
                    let permits = Arc::new(Semaphore::new(PARALLEL));
                    let mut tasks = JoinSet::<Result<_>>::new();
                    for _ in 0..count {
                        let (endpoint, address) = (self.endpoint.clone(), self.address);
                        let permits = permits.clone();
                        tasks.spawn(async move {
                            let _permit = permits.acquire().await?;
                            Ok(endpoint.connect(address, "localhost")?.await?)
                        });
                    }
                    while let Some(connection) = tasks.join_next().await {
                        self.connections.push(connection??);
                    }
                    Ok(())
                }

                /// Starts `count` streams on each connection that write for ever; nobody reads them.
                fn write(&self, count: usize) {
                    for connection in &self.connections {
                        for _ in 0..count {
                            let (connection, written) = (connection.clone(), self.written.clone());
                            tokio::spawn(async move {
                                let mut send = connection.open_uni().await?;
                                loop {
                                    send.write_all(&[0; WRITE]).await?;
                                    written.fetch_add(WRITE as u64, Relaxed);
                                }
                                #[expect(unreachable_code, reason = "names the type of the errors")]
                                Result::Ok(())
                            });
                        }
                    }
                }

                /// On each connection, `count` streams with one request and its answer.
                async fn exchange(&mut self, count: usize, kind: u8) -> Result<()> {
                    let permits = Arc::new(Semaphore::new(PARALLEL));
                    let mut tasks = JoinSet::<Result<Vec<Open>>>::new();
                    for connection in &self.connections {
                        let (connection, permits) = (connection.clone(), permits.clone());
                        tasks.spawn(async move {
                            let _permit = permits.acquire().await?;
                            let mut open = Vec::new();
                            for _ in 0..count {
                                let (mut send, mut recv) = connection.open_bi().await?;
                                send.write_all(&[kind; BYTES]).await?;
                                let mut answer = [0; BYTES];
                                recv.read_exact(&mut answer).await?;
                                if answer != [kind; BYTES] {
                                    return Err("another answer than expected".into());
                                }
                                match kind {
                                    ANSWER => {
                                        send.finish()?;
                                        recv.read_to_end(0).await?;
                                    }
                                    _ => open.push((send, recv)),
                                }
                            }
                            Ok(open)
                        });
                    }
                    while let Some(open) = tasks.join_next().await {
                        self.open.extend(open??);
                    }
                    Ok(())
                }
            }
        }
    };
}

ends!(rc3, rc3_net);
ends!(quinn, quinn);
