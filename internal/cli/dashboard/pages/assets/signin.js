// Gives the one-time token that stands in the address, where it reaches no log and no other page.
const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, "", "/");
  document.getElementById("token").value = token;
  document.getElementById("signin").submit();
}
