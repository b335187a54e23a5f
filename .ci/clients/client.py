"""Uses the client that a generator made from the description of the API. Arguments: its directory, the
URL of the server, a key of a project, the instance key."""
import sys
import urllib.request

directory, host, key, instance_key = sys.argv[1:]
sys.path.insert(0, directory)
import overdue_client as client


def connect(path, key):
    configuration = client.Configuration(host=host + path)
    configuration.api_key["X-Api-Key"] = key
    return client.ApiClient(configuration)


api = connect("/api/v3", key)
checks = client.ChecksApi(api)
made = checks.create_check(client.CheckFields(name="nightly", tags="prod db", schedule="30 3 * * *", tz="Europe/Riga", grace=900))
assert (made.name, made.status, made.schedule) == ("nightly", "new", "30 3 * * *"), made
urllib.request.urlopen(made.ping_url).read()
listed = checks.list_checks(tag=["prod"]).checks
assert len(listed) == 1, listed
shown = checks.get_check(made.uuid).actual_instance
assert (shown.status, shown.n_pings) == ("up", 1), shown
changed = checks.update_check(made.uuid, client.CheckFields(desc="From a generated client"))
assert changed.desc == "From a generated client", changed
assert len(client.PingsApi(api).list_pings(made.uuid).pings) == 1
assert isinstance(client.FlipsApi(api).list_flips(made.uuid), list)
try:
    checks.get_check("00000000-0000-4000-8000-000000000000")
    raise SystemExit("an unknown check was found")
except client.ApiException as error:
    assert error.status == 404, error
assert checks.delete_check(made.uuid).name == "nightly"

instance = client.InstanceApi(connect("/api/overdue/v1", instance_key))
instance.instance_create_project(client.InstanceCreateProjectRequest(name="from-python", check_limit=5))
found = [project for project in instance.instance_list_projects() if project.name == "from-python"]
assert found and found[0].check_limit == 5, found
new_key = instance.instance_create_key(client.InstanceCreateKeyRequest(project="from-python", access="read-write"))
own = client.ChecksApi(connect("/api/v3", new_key.key))
assert own.list_checks().checks == []
instance.instance_delete_project("from-python")
