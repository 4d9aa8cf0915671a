//! A gRPC service: squares by a unary call, numbers in order by a stream.

use std::pin::Pin;

use futures_util::{Stream, StreamExt, stream};
use tonic::{Request, Response, Status};

/// The modules that tonic generates.
mod generated {
    #![allow(
        missing_docs,
        unused_qualifications,
        unreachable_pub,
        clippy::all,
        reason = "not written by hand"
    )]
    include!(concat!(env!("OUT_DIR"), "/rc3.Numbers.rs"));
}

pub(crate) use generated::{numbers_client::NumbersClient, numbers_server::NumbersServer};

/// A message of protobuf.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Number {
    #[prost(uint64, tag = "1")]
    pub(crate) value: u64,
}

/// Most numbers that a stream counts; then it ends with an error.
pub(crate) const COUNT_MAX: u64 = 100_000;

/// The service.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arithmetic;

#[tonic::async_trait]
impl generated::numbers_server::Numbers for Arithmetic {
    async fn square(&self, request: Request<Number>) -> Result<Response<Number>, Status> {
        let value = request.into_inner().value;
        let value = value.checked_mul(value).ok_or_else(|| Status::out_of_range("the square has 64 bits"))?;
        Ok(Response::new(Number { value }))
    }

    type CountStream = Pin<Box<dyn Stream<Item = Result<Number, Status>> + Send>>;

    async fn count(&self, request: Request<Number>) -> Result<Response<Self::CountStream>, Status> {
        let to = request.into_inner().value;
        let numbers = stream::iter(0..to.min(COUNT_MAX)).map(|value| Ok(Number { value }));
        let end = stream::iter((to > COUNT_MAX).then(|| Err(Status::out_of_range("too far to count"))));
        Ok(Response::new(numbers.chain(end).boxed()))
    }
}
