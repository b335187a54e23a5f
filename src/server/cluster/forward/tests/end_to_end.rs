//! Test with a real HTTP server behind a peer port.

use super::*;
use crate::domain::project::{KeyAccess, KeyLabel, ProjectName};
use crate::engine;
use crate::http::{ApiRate, HttpConfig, HttpServer, dashboard};
use crate::operations;
use crate::runtime::blocking_threads::BlockingThreads;
use crate::store::Medium;

#[tokio::test]
async fn a_forwarded_ping_is_logged_with_the_address_of_its_client() {
    let (handle, writer) = engine::open(engine::EngineConfig::new(Medium::memory(), 0)).unwrap();
    let writer = std::thread::spawn(|| writer.run());
    let name = ProjectName::parse("main").unwrap();
    let project = operations::project::create(&handle, name, None, 100)
        .await
        .unwrap();
    let (_, key) =
        operations::key::create(&handle, project.id, KeyAccess::Ping, KeyLabel::default())
            .await
            .unwrap();
    let config = HttpConfig {
        base_url: "http://localhost".parse().unwrap(),
        trusted_proxies: Vec::new(),
        site_name: "overdue".into(),
        api_rate: ApiRate::UNLIMITED,
        dashboard: dashboard::DashboardConfig::new(dashboard::AuthMode::Password),
        connections_per_address: 100,
        access_log: false,
        metrics_token: None,
        instance: None,
        other_endpoints: None,
    };
    let blocking = Arc::new(BlockingThreads::start(1).unwrap());
    let server = HttpServer::new(handle.clone(), blocking, config);
    let port = start_port(SECRET).await;
    let listener = port.port.listen(PeerService::Http);
    let (stop, stopped) = watch::channel(false);
    let serving = tokio::spawn(server.serve(listener, None, Arc::default(), stopped));
    let follower = Follower::start(PeerService::Http, super::config(5000)).await;
    follower.set_leader(&port);

    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.9:0".parse().unwrap()).unwrap();
    let mut client = socket.connect(follower.address).await.unwrap();
    let request = format!("GET /ping/{key}/job?create=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, *b"HTTP/1.1 201");
    let check = handle.with_state(|state| state.checks().next().cloned());
    let pings = operations::check::pings(&handle, check.unwrap())
        .await
        .unwrap();
    let address = pings[0].origin.remote_addr;
    assert_eq!(address, Some("127.0.0.9".parse().unwrap()));

    stop.send_replace(true);
    serving.await.unwrap();
    read_rest(&mut client).await;
    handle.close();
    writer.join().unwrap();
}
