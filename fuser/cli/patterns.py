import click
@click.command("patterns")
def command() -> int:
    return 0
