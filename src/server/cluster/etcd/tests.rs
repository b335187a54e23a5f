use std::path::PathBuf;

use bytes::Bytes;

use super::test_server::{EtcdTestOptions, EtcdTestServer, TestAuthority, test_client};
use super::*;
use crate::server::cluster::key_values::KeyValueStore as _;

mod configuration;
mod failures;

/// Starts a server with the default options, and returns a client of it.
async fn start() -> Option<(EtcdTestServer, Etcd)> {
    EtcdTestServer::start(&EtcdTestOptions::default(), None).await
}

fn put(key: &str, value: impl Into<Bytes>) -> Op {
    Op::Put {
        key: key.to_owned().into(),
        value: value.into(),
    }
}

fn get(key: &str) -> Op {
    Op::Get {
        key: key.to_owned().into(),
    }
}

fn missing(key: &str) -> Compare {
    Compare::Missing {
        key: key.to_owned().into(),
    }
}

fn has_value(key: &str, value: &str) -> Compare {
    Compare::Value {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
    }
}

fn refusal(result: Result<impl std::fmt::Debug, EtcdError>) -> RefusalKind {
    match result {
        Err(EtcdError::Refused(refusal)) => refusal.kind,
        other => panic!("{other:?}"),
    }
}

fn values(reply: &RangeReply) -> Vec<(&str, &str)> {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    reply
        .key_values
        .iter()
        .map(|found| (text(&found.key), text(&found.value)))
        .collect()
}

#[tokio::test]
async fn keys_are_written_and_read_in_order() {
    let Some((_server, etcd)) = start().await else {
        return;
    };
    assert_eq!(etcd.get("a/1").await, Ok(None));
    for (key, value) in [("a/2", "two"), ("b/1", "other"), ("a/3", ""), ("a/1", "x")] {
        let reply = etcd.transact(&[], &[put(key, value)], &[]).await.unwrap();
        assert!(reply.succeeded);
        assert!(reply.gets.is_empty());
    }
    let reply = etcd.transact(&[], &[put("a/1", "one")], &[]).await.unwrap();
    let found = etcd.get("a/1").await.unwrap().unwrap();
    assert_eq!(found.version, 2);
    assert_eq!(found.mod_revision, reply.revision);
    let all = etcd.range("a/", "a0", 0, true).await.unwrap();
    assert_eq!(values(&all), [("a/1", "one"), ("a/2", "two"), ("a/3", "")]);
    assert!(!all.has_more);
    assert_eq!(all.revision, reply.revision);
    let first = etcd.range("a/", "a0", 2, false).await.unwrap();
    assert_eq!(values(&first), [("a/1", "one"), ("a/2", "two")]);
    assert!(first.has_more);
    let delete = Op::DeleteRange {
        from: "a/2".into(),
        to: "a0".into(),
    };
    let reply = etcd
        .transact(&[], &[delete, get("a/1"), get("a/2")], &[])
        .await
        .unwrap();
    assert_eq!(reply.gets[0].as_ref().unwrap().value, "one");
    assert_eq!(reply.gets[1..], [None]);
    let rest = etcd.range("a/", "a0", 0, true).await.unwrap();
    assert_eq!(values(&rest), [("a/1", "one")]);
}

#[tokio::test]
async fn a_transaction_requires_the_epoch_and_a_free_place() {
    let Some((_server, etcd)) = start().await else {
        return;
    };
    etcd.transact(&[missing("epoch")], &[put("epoch", "7")], &[])
        .await
        .unwrap();
    let append = async |epoch: &str, value: &str| {
        etcd.transact(
            &[has_value("epoch", epoch), missing("log/1")],
            &[put("log/1", value.to_owned())],
            &[get("epoch"), get("log/1")],
        )
        .await
        .unwrap()
    };
    let stale = append("6", "mine").await;
    assert!(!stale.succeeded);
    assert_eq!(stale.gets[0].as_ref().unwrap().value, "7");
    assert_eq!(stale.gets[1], None);
    assert!(append("7", "mine").await.succeeded);
    // The same transaction again has no effect, and shows that it was executed.
    let repeated = append("7", "mine").await;
    assert!(!repeated.succeeded);
    let entry = repeated.gets[1].as_ref().unwrap();
    assert_eq!((&*entry.value, entry.version), (&b"mine"[..], 1));

    let next = [put("epoch", "8")];
    let is_missing = Compare::Missing {
        key: "epoch".into(),
    };
    assert!(
        !etcd
            .transact(&[is_missing], &next, &[])
            .await
            .unwrap()
            .succeeded
    );
    let taken = etcd.transact(&[has_value("epoch", "7")], &next, &[]).await;
    assert!(taken.unwrap().succeeded);
    assert!(!append("7", "late").await.succeeded);
    // A key that does not exist has no value, not even an empty one.
    let reply = etcd.transact(&[has_value("none", "")], &[], &[]).await;
    assert!(!reply.unwrap().succeeded);
}

#[tokio::test]
async fn compaction_may_be_repeated() {
    let Some((_server, etcd)) = start().await else {
        return;
    };
    for number in 0..5 {
        etcd.transact(&[], &[put("k", number.to_string())], &[])
            .await
            .unwrap();
    }
    let revision = etcd.get("k").await.unwrap().unwrap().mod_revision;
    assert_eq!(etcd.compact(revision).await, Ok(()));
    assert_eq!(etcd.compact(revision).await, Ok(()));
    assert_eq!(etcd.compact(revision - 1).await, Ok(()));
    assert_eq!(
        refusal(etcd.compact(revision + 10).await),
        RefusalKind::Other
    );
    assert_eq!(etcd.get("k").await.unwrap().unwrap().value, "4");
}

#[tokio::test]
async fn status_describes_the_member() {
    let Some((_server, etcd)) = start().await else {
        return;
    };
    let status = etcd.status(0).await.unwrap();
    assert!(status.version.starts_with("3."), "{status:?}");
    assert!(status.database_bytes > 0);
    assert_ne!(status.member, 0);
    assert_eq!(status.leader, status.member);
    assert!(status.errors.is_empty());
    assert!(matches!(
        etcd.status(1).await,
        Err(EtcdError::Unreachable(_))
    ));
    assert_eq!(etcd.endpoints().len(), 1);
}

#[tokio::test]
async fn values_have_a_maximum_length() {
    let Some((_server, etcd)) = start().await else {
        return;
    };
    let large = Bytes::from(vec![b'x'; 1024 * 1024]);
    etcd.transact(&[], &[put("large", large.clone())], &[])
        .await
        .unwrap();
    assert_eq!(etcd.get("large").await.unwrap().unwrap().value, large);
    for bytes in [1_700_000, 2 * 1024 * 1024] {
        let too_large = put("larger", vec![b'x'; bytes]);
        let result = etcd.transact(&[], &[too_large], &[]).await;
        assert_eq!(refusal(result), RefusalKind::TooLarge, "{bytes}");
    }
    assert_eq!(etcd.get("larger").await, Ok(None));
    // A reply that is longer than the default limit of gRPC.
    for number in 0..6 {
        etcd.transact(&[], &[put(&format!("many/{number}"), large.clone())], &[])
            .await
            .unwrap();
    }
    let reply = etcd.range("many/", "many0", 0, true).await.unwrap();
    assert_eq!(reply.key_values.len(), 6);
}

#[tokio::test]
async fn a_full_database_refuses_writes() {
    let options = EtcdTestOptions {
        quota_bytes: Some(2 * 1024 * 1024),
        ..EtcdTestOptions::default()
    };
    let Some((_server, etcd)) = EtcdTestServer::start(&options, None).await else {
        return;
    };
    let value = Bytes::from(vec![b'x'; 512 * 1024]);
    // etcd updates its size ten times a second.
    for number in 0..400 {
        let write = put(&format!("k{number}"), value.clone());
        match etcd.transact(&[], &[write], &[]).await {
            Ok(_) => {}
            Err(EtcdError::Refused(refusal)) => {
                assert_eq!(refusal.kind, RefusalKind::NoSpace, "{refusal:?}");
                let text = EtcdError::Refused(refusal).to_string();
                assert!(text.contains("etcdctl alarm disarm"), "{text}");
                assert!(etcd.get("k0").await.unwrap().is_some());
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the quota had no effect");
}

/// Request with one or two names: a user and a password, or a user and a role.
#[derive(Clone, PartialEq, prost::Message)]
struct TwoNames {
    #[prost(string, tag = "1")]
    first: String,
    #[prost(string, tag = "2")]
    second: String,
}

/// Calls a method for the administration of users.
async fn administrate(etcd: &Etcd, method: &'static str, first: &str, second: &str) {
    let request = TwoNames {
        first: first.into(),
        second: second.into(),
    };
    let result: Result<EmptyMessage, _> = etcd.call(method, &request, Repetition::ByCaller).await;
    result.unwrap();
}

/// Enables users: `root`, and `guest` who may access no key.
async fn enable_users(etcd: &Etcd) {
    for (method, first, second) in [
        ("/etcdserverpb.Auth/RoleAdd", "root", ""),
        ("/etcdserverpb.Auth/UserAdd", "root", "pass/word"),
        ("/etcdserverpb.Auth/UserGrantRole", "root", "root"),
        ("/etcdserverpb.Auth/UserAdd", "guest", "guest"),
        ("/etcdserverpb.Auth/AuthEnable", "", ""),
    ] {
        administrate(etcd, method, first, second).await;
    }
}

#[tokio::test]
async fn users_authenticate_with_a_password() {
    let Some((server, anonymous)) = start().await else {
        return;
    };
    let user = |name: &str, password: &str| {
        let user = EtcdUser {
            name: name.into(),
            password: password.into(),
        };
        assert!(!format!("{user:?}").contains(password) || name == password);
        test_client(vec![server.endpoint.clone()], Some(user), None).unwrap()
    };
    let root = user("root", "pass/word");
    // Before etcd has users, no token is needed.
    root.transact(&[], &[put("k", "1")], &[]).await.unwrap();
    enable_users(&anonymous).await;
    assert_eq!(
        refusal(anonymous.get("k").await),
        RefusalKind::Unauthenticated
    );
    let write = [put("k", "2")];
    assert!(root.transact(&[], &write, &[]).await.unwrap().succeeded);
    assert_eq!(root.get("k").await.unwrap().unwrap().version, 2);

    let wrong = user("root", "not-it").get("k").await;
    let text = wrong.clone().unwrap_err().to_string();
    assert!(!text.contains("not-it"), "{text}");
    assert_eq!(refusal(wrong), RefusalKind::Unauthenticated);
    let guest = user("guest", "guest");
    assert_eq!(refusal(guest.get("k").await), RefusalKind::PermissionDenied);
    let denied = guest.transact(&[], &write, &[]).await;
    assert_eq!(refusal(denied), RefusalKind::PermissionDenied);

    // A token that etcd no longer knows is replaced.
    *root.inner.token.lock().await = Some(Token::try_from("expired.1").unwrap());
    assert!(root.transact(&[], &write, &[]).await.unwrap().succeeded);
    assert_eq!(root.get("k").await.unwrap().unwrap().version, 3);
    let current = root.inner.token.lock().await.clone().unwrap();
    assert!(!format!("{current:?}").contains("root."), "{current:?}");
    assert!(root.status(0).await.is_ok());
}

#[tokio::test]
async fn tls_verifies_both_sides() {
    let authority = TestAuthority::new();
    let own = authority.sign();
    let pem: Vec<u8> = authority.issuer.pem().into();
    let files = [
        authority.write("server.crt", &own.chain),
        authority.write("server.key", &own.key),
        authority.write("ca.crt", &pem),
    ];
    let options = EtcdTestOptions {
        tls: Some(files.each_ref().map(PathBuf::as_path)),
        ..EtcdTestOptions::default()
    };
    let tls = EtcdTls {
        authorities: Some(pem.clone()),
        identity: Some(authority.sign()),
    };
    assert!(!format!("{tls:?}").contains("PRIVATE"));
    let Some((server, etcd)) = EtcdTestServer::start(&options, Some(tls)).await else {
        return;
    };
    etcd.transact(&[], &[put("k", "1")], &[]).await.unwrap();
    assert_eq!(etcd.get("k").await.unwrap().unwrap().value, "1");

    let client = |authorities: Option<Vec<u8>>, identity| {
        let tls = EtcdTls {
            authorities,
            identity,
        };
        test_client(vec![server.endpoint.clone()], None, Some(tls)).unwrap()
    };
    // etcd is not trusted.
    let other = TestAuthority::new();
    for authorities in [Some(other.issuer.pem().into()), None] {
        let result = client(authorities, Some(authority.sign())).get("k").await;
        let Err(EtcdError::Unreachable(reason)) = result else {
            panic!("{result:?}");
        };
        assert!(
            reason.contains("not signed by a trusted authority"),
            "{reason}"
        );
    }
    // etcd does not trust this client.
    for identity in [None, Some(other.sign())] {
        let result = client(Some(pem.clone()), identity).get("k").await;
        assert!(
            matches!(
                result,
                Err(EtcdError::Unknown(_) | EtcdError::Unreachable(_))
            ),
            "{result:?}"
        );
    }
}
