// Package act carries out steps. It alone has a client that writes (Client), and it does not judge: what is to be done, package plan has
// said. It knows how machines are made, adopted, changed in place, removed and released, how etcd's members are changed, what is noted
// before, and what follows the group without a step (Keep). Each step may be repeated without harm, and each write may be the last one.
package act
