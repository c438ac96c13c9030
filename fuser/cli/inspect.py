import click
@click.command("inspect")
def command() -> int:
    return 0
